/**
 * Which operation a request is for.
 *
 * Paths are compared exactly: no decoding, no trailing slash, the query ignored, and only the
 * canonical spelling of an id. Both forms of RFC 9112 section 3.2 that name a path are understood,
 * `/plants` and `http://host/plants`. Says what an operation needs, not what it does.
 */
import { PlantStoreError } from "../core/errors.ts";
import { parseCanonicalInt64 } from "../core/int64.ts";
import type { Scope } from "../core/services.ts";

export interface Operation {
  /** As the OpenAPI description calls it. */
  readonly name: "createPlant" | "listPlants" | "getPlant";
  /** What the token must have. */
  readonly scope: Scope;
  /** What a browser may be asked to send for it from a page of another origin. */
  readonly headers: readonly string[];
}

/** A path, as the OpenAPI description writes it, and what can be done there by which method. */
export interface Resource {
  readonly path: string;
  readonly operations: ReadonlyMap<string, Operation>;
}

/** Where a request leads. */
export interface Route {
  readonly resource: Resource;
  /** What stands for `{id}` in the path. */
  readonly id?: bigint;
}

const CREATE_PLANT: Operation = {
  name: "createPlant",
  scope: "write",
  headers: ["Authorization", "Content-Type"],
};
const LIST_PLANTS: Operation = { name: "listPlants", scope: "read", headers: ["Authorization"] };
const GET_PLANT: Operation = {
  name: "getPlant",
  scope: "read",
  headers: ["Authorization", "If-None-Match"],
};

const PLANTS: Resource = {
  path: "/plants",
  operations: new Map(Object.entries({ GET: LIST_PLANTS, HEAD: LIST_PLANTS, POST: CREATE_PLANT })),
};
const PLANT: Resource = {
  path: "/plants/{id}",
  operations: new Map(Object.entries({ GET: GET_PLANT, HEAD: GET_PLANT })),
};

/** Every path there is below the base path. */
export const RESOURCES: readonly Resource[] = [PLANTS, PLANT];

/** To a path where nothing is, a page may send what it may anywhere, so that it can read its 404. */
const NOTHING: Resource = {
  path: "/",
  operations: new Map(RESOURCES.flatMap(({ operations }) => [...operations])),
};

/** What a preflight of this target is about; `undefined` if it is not below the base path. */
export function findPreflighted(target: string, basePath: string): Resource | undefined {
  const isBelow = pathOf(target).startsWith(`${basePath}/`);
  return isBelow ? (findRoute(target, basePath)?.resource ?? NOTHING) : undefined;
}

const PLANT_PREFIX = "/plants/";

/** Where a request target leads; `undefined` if there is nothing. */
export function findRoute(target: string, basePath: string): Route | undefined {
  const path = pathOf(target);
  if (!path.startsWith(basePath)) return undefined;
  const rest = path.slice(basePath.length);
  if (rest === PLANTS.path) return { resource: PLANTS };
  if (!rest.startsWith(PLANT_PREFIX)) return undefined;
  const id = parseCanonicalInt64(rest.slice(PLANT_PREFIX.length));
  return id === undefined ? undefined : { resource: PLANT, id };
}

export function notFound(basePath: string): PlantStoreError {
  const known = RESOURCES.map(({ path }) => basePath + path);
  return new PlantStoreError("not_found", `path: expected ${known.join(" or ")}`);
}

/** The methods of a resource, as `Allow` has them. */
export function methodsOf({ operations }: Resource): string {
  return [...operations.keys()].join(", ");
}

export function methodNotAllowed(resource: Resource, method: string): PlantStoreError {
  return new PlantStoreError(
    "method_not_allowed",
    `method: expected one of ${methodsOf(resource)}, got ${method}`,
  );
}

/** Scheme and authority of an absolute-form target. */
const AUTHORITY = /^https?:\/\/[^/?#]*/i;

/** The path of a request target, of either form, without the query. */
export function pathOf(target: string): string {
  const path = target.startsWith("/") ? target : target.replace(AUTHORITY, "");
  const query = path.indexOf("?");
  return query < 0 ? path : path.slice(0, query);
}
