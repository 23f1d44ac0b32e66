/**
 * What may stand before `/plants` in the path of a request. Which requests it
 * leads to is the router's.
 */
import { assertString } from "../core/options.ts";

/**
 * A base path as the router wants it: empty, or with a slash in front and none behind.
 *
 * @throws TypeError when it is no string; RangeError when it holds what no path
 * can (RFC 3986 section 3.3).
 */
export function normalizeBasePath(basePath: string): string {
  assertString("basePath", basePath);
  const path = basePath.replace(/\/$/, "");
  if (path !== "" && !/^(?:\/[A-Za-z0-9._~!$&'()*+,;=:@%-]+)+$/.test(path)) {
    throw new RangeError(`basePath: expected a path like /garden, got "${basePath}"`);
  }
  return path;
}
