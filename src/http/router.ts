/**
 * Which resource a request is for.
 *
 * Paths are compared exactly: no decoding, no trailing slash, the query
 * ignored. Both forms of RFC 9112 section 3.2 that name a path are understood,
 * `/plants` and `http://host/plants`. Knows no methods' meaning, only their names.
 */
import { PlantStoreError } from "../core/errors.ts";
import { requireString } from "../core/options.ts";

/** What each path below the base path allows. */
const METHODS = new Map<string, readonly string[]>([["/plants", ["POST"]]]);

/** Scheme and authority of an absolute-form target. */
const AUTHORITY = /^https?:\/\/[^/?#]*/i;

/**
 * The methods of the resource that a request target names.
 *
 * @throws PlantStoreError `not_found`.
 */
export function findMethods(target: string, basePath: string): readonly string[] {
  const path = pathOf(target);
  const methods = path.startsWith(basePath) ? METHODS.get(path.slice(basePath.length)) : undefined;
  if (methods !== undefined) return methods;
  const known = [...METHODS.keys()].map((known) => basePath + known);
  throw new PlantStoreError("not_found", `path: expected ${known.join(" or ")}`);
}

/** @throws PlantStoreError `method_not_allowed`. */
export function requireMethod(method: string | undefined, methods: readonly string[]): void {
  if (method !== undefined && methods.includes(method)) return;
  throw new PlantStoreError(
    "method_not_allowed",
    `method: expected ${methods.join(" or ")}, got ${method}`,
  );
}

/**
 * A base path as the router wants it: empty, or with a slash in front and none behind.
 *
 * @throws TypeError when it is no string; RangeError when it holds what no path
 * can (RFC 3986 section 3.3).
 */
export function normalizeBasePath(basePath: string): string {
  requireString("basePath", basePath);
  const path = basePath.replace(/\/$/, "");
  if (path !== "" && !/^(?:\/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+$/.test(path)) {
    throw new RangeError(`basePath: expected a path like /garden, got "${basePath}"`);
  }
  return path;
}

/** The path of a request target, of either form, without the query. */
export function pathOf(target: string): string {
  const path = target.startsWith("/") ? target : target.replace(AUTHORITY, "");
  const query = path.indexOf("?");
  return query < 0 ? path : path.slice(0, query);
}
