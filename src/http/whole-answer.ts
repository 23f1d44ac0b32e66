/**
 * An answer to a create that leaves as one text. Node checks and joins header
 * by header, and before Node 24 hands over a list of pieces; so a plain server
 * with the listener made 5 % fewer creates at 64 connections and 11 % fewer at
 * 256, and ours, with what was changed beside this, 9 and 18 % (test/bench/results).
 *
 * Invariant: byte for byte what Node sends, as a test on every supported Node
 * holds, and as each process compares once. Whatever else is to be said goes
 * Node's way, and all does where the runtime sends something else, or somebody has put
 * methods of their own in the place of Node's: middleware in one response, a monitor in all.
 */
import { IncomingMessage, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { Writable } from "node:stream";
import { isCorsHeader } from "./cors.ts";
import { encodeOk, NO_HEADERS, okReply, type Reply, writeReplyHead } from "./reply.ts";

/** Members of Node's that have no word in its documentation. */
interface Internals {
  /** What goes out before the first of the body. */
  _header: string | null | undefined;
  /** The server's, in milliseconds. */
  readonly _keepAliveTimeout: number | undefined;
  /** The server's; told to the client where there is one. */
  readonly _maxRequestsPerSocket: number | null | undefined;
  /** Somebody asked for no header `Connection`. */
  readonly _removedConnection: boolean;
  /** The client waits for a 100; Node closes behind an answer without. */
  readonly _expect_continue: boolean;
  readonly _sent100: boolean;
  /** As they were set, and are written; its documentation is that of requests alone. */
  getRawHeaderNames(): readonly string[];
}

const { writeHead, end } = ServerResponse.prototype;
/** Whether nobody had wrapped them when this was loaded: Node's name what they call. */
const ARE_NODES = /\b_storeHeader\b/.test(`${writeHead}`) && /\b_send\b/.test(`${end}`);

const ASCII = /^[ -~]*$/;

/** Whether this runtime sends the text as it is; `undefined` until it was compared. */
let isExact: boolean | undefined;

/** What stands behind our own headers until the clock or the server is another. */
let ending = { second: 0, keepAliveMs: 0, text: "" };

/** Sends the answer to a create; false, and nothing sent, where that is Node's to do. */
export function trySendWhole(res: ServerResponse, reply: Reply, requestId: string): boolean {
  const { status, headers } = reply;
  if (status !== 200 || headers !== NO_HEADERS || !isUntouched(res)) return false;
  isExact ??= compareOnce();
  return isExact && sendWhole(res, reply, requestId);
}

function sendWhole(res: ServerResponse, { status, body }: Reply, requestId: string): boolean {
  const before = encodeCorsHeaders(res);
  if (before === undefined) return false;
  const internals = res as unknown as Internals;
  const { _header, _keepAliveTimeout: keepAliveMs = 0, _maxRequestsPerSocket: max } = internals;
  if (_header !== null || !(keepAliveMs > 0) || max || internals._removedConnection) return false;
  if (internals._expect_continue && !internals._sent100) return false;
  if (Buffer.byteLength(body) !== body.length) return false; // it leaves as Latin-1
  res.statusCode = status;
  res.statusMessage = "OK";
  internals._header = encodeOk(body, requestId, endingOf(keepAliveMs), before);
  res.end();
  return true;
}

/** Whether a response to a POST is as Node made it. */
function isUntouched(res: ServerResponse): boolean {
  if (!ARE_NODES || res.writeHead !== writeHead || res.end !== end) return false;
  return res.req.method === "POST" && res.shouldKeepAlive && res.sendDate && !res.statusMessage;
}

/** Whether a response sends the same bytes by either way; without a connection, and at once. */
function compareOnce(): boolean {
  const reply = okReply('{"name":"a"}');
  const writeByNode = (res: ServerResponse) => {
    writeReplyHead(res, reply, "one");
    return res.end(reply.body);
  };
  try {
    const whole = recordSent((res) => sendWhole(res, reply, "one"));
    return whole !== "" && whole === recordSent(writeByNode);
  } catch {
    return false; // a runtime whose responses are made in another way
  }
}

/** A class of its own: V8 would lay out real responses by what these hold (http/direct-request). */
class ComparedResponse extends ServerResponse {}

/** What a response sends, except for the time of day. */
function recordSent(write: (res: ServerResponse) => unknown): string {
  const req = new IncomingMessage(new Socket());
  Object.assign(req, { method: "POST", httpVersionMajor: 1, httpVersionMinor: 1 });
  const res = new ComparedResponse(req);
  Object.assign(res, { _keepAliveTimeout: 5000, shouldKeepAlive: true });
  const pieces: Buffer[] = [];
  const sink = new Writable({
    write: (piece: Buffer, _, done) => {
      pieces.push(piece);
      done();
    },
  });
  res.assignSocket(sink as Socket);
  res.setHeader("Vary", "Origin");
  write(res);
  return Buffer.concat(pieces)
    .toString("latin1")
    .replace(/^Date: .*$/m, "");
}

/**
 * The headers that http/cors has set before, as Node writes them: in front of our own. `undefined`
 * if there are others, which Node may have to interpret, or values that are no plain text.
 */
function encodeCorsHeaders(res: ServerResponse): string | undefined {
  if (res.getHeaderNames().length === 0) return "";
  let lines = "";
  for (const name of (res as unknown as Internals).getRawHeaderNames()) {
    const value = res.getHeader(name);
    if (!isCorsHeader(name) || typeof value !== "string" || !ASCII.test(value)) return undefined;
    lines += `${name}: ${value}\r\n`;
  }
  return lines;
}

function endingOf(keepAliveMs: number): string {
  const second = Math.floor(Date.now() / 1000);
  if (second !== ending.second || keepAliveMs !== ending.keepAliveMs) {
    const date = new Date(second * 1000).toUTCString();
    const seconds = Math.floor(keepAliveMs / 1000);
    const text = `Date: ${date}\r\nConnection: keep-alive\r\nKeep-Alive: timeout=${seconds}\r\n\r\n`;
    ending = { second, keepAliveMs, text };
  }
  return ending.text;
}
