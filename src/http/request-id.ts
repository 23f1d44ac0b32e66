/**
 * The name that a request has in its answer and in logs: the client's own
 * `X-Request-Id` where that is safe to repeat, else one of ours.
 *
 * Ours are a random part for each process and a counter: unique among the
 * restarts and the replicas whose logs somebody puts together, and no work.
 */
import { randomBytes } from "node:crypto";
import type { IncomingMessage } from "node:http";

/** Nothing that a header, a line of a log, a shell or a page could take for its own. */
const SAFE = /^[A-Za-z0-9._~+/=:@-]{1,64}$/;

const OURS = `${randomBytes(6).toString("hex")}-`;
let made = 0;

/** Several such headers arrive joined by commas, and so are none that is safe. */
export function nameRequest(req?: IncomingMessage): string {
  const sent = req?.headers["x-request-id"];
  return typeof sent === "string" && SAFE.test(sent) ? sent : OURS + ++made;
}
