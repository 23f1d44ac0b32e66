/**
 * The part of the contract besides storing, written as plainly as possible: a peer
 * that does not check the token, name the request or validate the plant has less
 * work and cannot be compared. Ids are numbers here: a peer need not keep ids that
 * a double cannot hold.
 */
import { createHash, randomUUID, timingSafeEqual } from "node:crypto";

const TOKEN_HASH = hash("any"); // what the benchmark sends

function hash(token) {
  return createHash("sha256").update(token).digest();
}

export function isAllowed(authorization) {
  if (authorization?.startsWith("Bearer ") !== true) return false;
  return timingSafeEqual(hash(authorization.slice("Bearer ".length)), TOKEN_HASH);
}

/** What is answered to a request that fails: the status and the body. */
export const REFUSALS = {
  token: { status: 401, body: { error: 40102, message: "expected a live token" } },
  plant: { status: 400, body: { error: 40005, message: "expected a plant" } },
  conflict: { status: 400, body: { error: 40006, message: "the id belongs to another plant" } },
};

/** The id that the client has given to the request, or a new one. */
export function requestId(headers) {
  return headers["x-request-id"] ?? randomUUID();
}

/** Whether a create of a stored id has the same content: a client that tries again. */
export function isSame(present, { name, tag }) {
  return present.name === name && (present.tag ?? undefined) === tag;
}

export function isPlant(value) {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  const { id, name, tag } = value;
  if (!Number.isSafeInteger(id) || typeof name !== "string") return false;
  return tag === undefined || typeof tag === "string";
}
