/**
 * Writing an answer so that the client gets it, also when the request was not
 * read to its end.
 *
 * A small rest of a body is read and thrown away, and the connection lives on.
 * Before a large or unknown rest the connection closes, but not at once:
 * closing a socket with unread bytes resets it, and the reset can overtake the
 * answer. So the answer goes out, our side closes, and for a short while what
 * still comes is thrown away (RFC 9112 section 9.6).
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { encodeReply, type Reply, writeReplyHead } from "./reply.ts";
import { nameRequest } from "./request-id.ts";
import { publishAnswer } from "./request-message.ts";
import { trySendWhole } from "./whole-answer.ts";

/** A rest of a body that costs less to read than a new connection. */
const DISCARD_BYTES_MAX = 64 * 1024;
/** What is thrown away of a larger one before the connection is cut. */
const LINGER_BYTES_MAX = 256 * 1024;
const LINGER_MS = 1000;

/**
 * Answers a request that may have an unread body.
 *
 * @returns the request's id, as the answer tells it.
 */
export function answer(
  req: IncomingMessage,
  res: ServerResponse,
  reply: Reply,
): string | undefined {
  if (res.headersSent) return undefined; // the connection's own failure was told first
  if (hasLargeRest(req)) return answerAndClose(req, res, reply);
  const requestId = nameRequest(req);
  if (!trySendWhole(res, reply, requestId)) {
    writeReplyHead(res, reply, requestId);
    res.end(reply.body); // Node throws a small rest away by itself
  }
  publishAnswer(reply, requestId, req);
  return requestId;
}

/** Answers, and closes the connection whatever else comes on it. */
export function answerAndClose(
  req: IncomingMessage,
  res: ServerResponse,
  reply: Reply,
): string | undefined {
  if (res.headersSent) return undefined;
  const requestId = nameRequest(req);
  res.setHeader("Connection", "close");
  writeReplyHead(res, reply, requestId);
  res.flushHeaders(); // an answer to HEAD is nothing else
  // Not end(): that would have Node close the socket at once.
  res.write(reply.body, () => closeGently(req.socket));
  publishAnswer(reply, requestId, req);
  let discarded = 0;
  req.on("data", (chunk: Buffer) => {
    discarded += chunk.length;
    if (discarded > LINGER_BYTES_MAX) req.socket.destroy();
  });
  return requestId;
}

/** Answers on a connection that has no request to answer, or none with a response, and closes it. */
export function answerSocket(socket: Socket, reply: Reply, req?: IncomingMessage): void {
  const requestId = nameRequest(req);
  closeGently(socket, encodeReply(reply, requestId));
  publishAnswer(reply, requestId, req);
}

/** Tells of a request that broke off, unless it was answered before. */
export function answerNobody(req: IncomingMessage, res: ServerResponse): void {
  if (!res.headersSent) publishAnswer({ status: 0, cut: true }, nameRequest(req), req);
}

/** Closes our side, perhaps after some last text, and the whole socket when the peer does. */
function closeGently(socket: Socket, text = ""): void {
  const timer = setTimeout(() => socket.destroy(), LINGER_MS);
  socket.once("close", () => clearTimeout(timer));
  socket.end(text);
}

/** Whether more is to come of the body than is worth reading. */
function hasLargeRest(req: IncomingMessage): boolean {
  if (req.complete) return false;
  const { "content-length": length, "transfer-encoding": coding, expect } = req.headers;
  // A client that waits for 100 Continue may or may not send the body after an error.
  if (coding !== undefined || expect !== undefined) return true;
  return Number(length ?? 0) > DISCARD_BYTES_MAX;
}

/** Has the connection close after this answer, if that can still be said. */
export function closeAfter(res: ServerResponse | undefined): void {
  if (res !== undefined && !res.headersSent) res.setHeader("Connection", "close");
}

/** Whether the connection closes after this answer. */
export function isLastAnswer(res: ServerResponse | undefined): boolean {
  return res !== undefined && (!res.shouldKeepAlive || res.getHeader("Connection") === "close");
}

/** Runs `then` once the answer, and with it every earlier one, is written. */
export function afterAnswer(res: ServerResponse | undefined, then: () => void): void {
  if (res === undefined || res.writableFinished) then();
  else res.once("finish", then);
}
