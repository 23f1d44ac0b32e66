/**
 * Finds the operation that a request is for.
 *
 * Paths are compared exactly: no decoding, no trailing slash, the query ignored, ids in canonical
 * form only. A target may be a path or a URL, `/plants` or `http://host/plants` (RFC 9112 section
 * 3.2).
 */
import { PlantStoreError } from "../core/errors.ts";
import { parseCanonicalInt64 } from "../core/int64.ts";
import type { Scope } from "../core/services.ts";
import { quote } from "../core/text.ts";

export interface Operation {
  /** The `operationId` in the OpenAPI document. */
  readonly name: "createPlant" | "listPlants" | "getPlant";
  /** The scope that the token must have. */
  readonly scope: Scope;
}

export interface Resource {
  /** As in the OpenAPI document. */
  readonly path: string;
  readonly operations: ReadonlyMap<string, Operation>;
}

export interface Route {
  readonly resource: Resource;
  readonly id?: bigint;
}

const CREATE_PLANT: Operation = { name: "createPlant", scope: "write" };
const LIST_PLANTS: Operation = { name: "listPlants", scope: "read" };
const GET_PLANT: Operation = { name: "getPlant", scope: "read" };

const PLANTS: Resource = {
  path: "/plants",
  operations: new Map(Object.entries({ GET: LIST_PLANTS, HEAD: LIST_PLANTS, POST: CREATE_PLANT })),
};
const PLANT: Resource = {
  path: "/plants/{id}",
  operations: new Map(Object.entries({ GET: GET_PLANT, HEAD: GET_PLANT })),
};

/** Every path below the base path. */
export const RESOURCES: readonly Resource[] = [PLANTS, PLANT];

export function findRoute(target: string, basePath: string): Route | undefined {
  const path = pathOf(target);
  if (!path.startsWith(basePath)) return undefined;
  const rest = path.slice(basePath.length);
  if (rest === PLANTS.path) return { resource: PLANTS };
  const prefix = `${PLANTS.path}/`;
  if (!rest.startsWith(prefix)) return undefined;
  const id = parseCanonicalInt64(rest.slice(prefix.length));
  return id === undefined ? undefined : { resource: PLANT, id };
}

export function notFound(basePath: string, target: string): PlantStoreError {
  const known = RESOURCES.map(({ path }) => basePath + path).join(" or ");
  const message = `path: expected ${known}, got ${quote(pathOf(target))}`;
  return new PlantStoreError("not_found", message);
}

/** The value of `Allow`. */
export function methodsOf({ operations }: Resource): string {
  return [...operations.keys()].join(", ");
}

export function methodNotAllowed(resource: Resource, method: string): PlantStoreError {
  return new PlantStoreError(
    "method_not_allowed",
    `method: expected one of ${methodsOf(resource)}, got ${method}`,
  );
}

const AUTHORITY = /^https?:\/\/[^/?#]*/i;

/** The path of a request target, without authority and query. */
export function pathOf(target: string): string {
  const path = target.startsWith("/") ? target : target.replace(AUTHORITY, "");
  const query = path.indexOf("?");
  return query < 0 ? path : path.slice(0, query);
}
