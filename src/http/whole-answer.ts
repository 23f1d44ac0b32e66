/**
 * Sends the answer to a create as one text. Node checks and joins header by header, and before
 * Node 24 hands over a list of pieces, which takes a tenth of a create.
 *
 * Invariant: byte for byte what Node sends. The head is a copy of one that Node made in this second,
 * with another length and id. An answer with any other header goes Node's way, and so does every
 * response with methods that are not Node's: of middleware, or of a monitor on all responses.
 */
import { ServerResponse } from "node:http";
import { NO_HEADERS, type Reply, writeReplyHead } from "./reply.ts";

/** Members of Node's responses that it does not document. */
interface Internals {
  /** What is sent before the first of the body. */
  _header: string | null | undefined;
  /** The server's, in milliseconds. */
  readonly _keepAliveTimeout: number | undefined;
  /** The server's; sent to the client if there is one. */
  readonly _maxRequestsPerSocket: number | null | undefined;
  /** Other code wants no header `Connection`. */
  readonly _removedConnection: boolean;
  /** The client waits for a 100; Node closes after an answer without one. */
  readonly _expect_continue: boolean;
  readonly _sent100: boolean;
}

const { writeHead, end } = ServerResponse.prototype;
/** Whether nobody had wrapped them when this was loaded: Node's name what they call. */
const ARE_NODES = /\b_storeHeader\b/.test(`${writeHead}`) && /\b_send\b/.test(`${end}`);

/** The text before the length, between it and the id, and after the id. */
const AROUND_LENGTH_AND_ID =
  /^(.*\r\nContent-Length: )\d+(\r\n.*\r\nX-Request-Id: )[^\r]*(\r\n.*)$/s;

/** The head that Node made last. */
let known = { second: 0, keepAliveMs: 0, start: "", middle: "", ending: "" };

/** @returns false, with nothing sent, if Node is to send this answer. */
export function trySendWhole(res: ServerResponse, reply: Reply, requestId: string): boolean {
  const { body } = reply;
  if (reply.status !== 200 || reply.headers !== NO_HEADERS || !isPlain(res)) return false;
  if (Buffer.byteLength(body) !== body.length) return false; // it leaves as Latin-1
  const internals = res as unknown as Internals;
  const { _keepAliveTimeout: keepAliveMs = 0 } = internals;
  const second = Math.floor(Date.now() / 1000);
  if (second === known.second && keepAliveMs === known.keepAliveMs) {
    res.statusCode = 200;
    res.statusMessage = "OK";
  } else {
    writeReplyHead(res, reply, requestId);
    const [, start, middle, ending] = AROUND_LENGTH_AND_ID.exec(internals._header ?? "") ?? [];
    if (start === undefined || middle === undefined || ending === undefined) {
      res.end(body);
      return true;
    }
    known = { second, keepAliveMs, start, middle, ending };
  }
  internals._header = `${known.start}${body.length}${known.middle}${requestId}${known.ending}${body}`;
  res.end();
  return true;
}

/** Whether a response is as Node made it for a POST on a connection that stays open. */
function isPlain(res: ServerResponse): boolean {
  if (!ARE_NODES || res.writeHead !== writeHead || res.end !== end) return false;
  if (res.req.method !== "POST" || !res.shouldKeepAlive || !res.sendDate) return false;
  if (res.statusMessage || res.getHeaderNames().length > 0) return false;
  const internals = res as unknown as Internals;
  if (internals._header !== null || internals._removedConnection) return false;
  if (internals._expect_continue && !internals._sent100) return false;
  return Number(internals._keepAliveTimeout) > 0 && !internals._maxRequestsPerSocket;
}
