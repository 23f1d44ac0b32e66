/**
 * An answer to a create that leaves as one text: only in our own server, which
 * may name its class of responses (`http.createServer`, option `ServerResponse`).
 * Node checks and joins header by header, and before Node 24 hands over a list
 * of pieces; so, and with what was changed beside this, the server made a tenth
 * fewer creates at 64 connections and a sixth fewer at 256 (test/bench/results).
 *
 * Invariant: byte for byte what Node sends, as a test on every supported Node
 * holds. Whatever else is to be said goes Node's way, and all does where Node
 * has not the members that are set here. Whoever wraps `writeHead` of every
 * response does not see these.
 */
import { type IncomingMessage, ServerResponse } from "node:http";
import { encodeOk, type Reply } from "./reply.ts";

/** What stands behind our own headers until the clock or the server is another. */
let ending = { second: 0, keepAliveMs: 0, text: "" };

export class DirectResponse<
  Request extends IncomingMessage = IncomingMessage,
> extends ServerResponse<Request> {
  /** Node's: what goes out before the first of the body. */
  declare private _header: string | null | undefined;
  /** Node's: `keepAliveTimeout` of the server, in milliseconds. */
  declare private _keepAliveTimeout: number | undefined;

  /** Sends the answer to a create; false, and nothing sent, where that is Node's to do. */
  trySendWhole(reply: Reply, requestId: string): boolean {
    const { status, headers, body } = reply;
    const { _keepAliveTimeout: keepAliveMs = 0 } = this;
    if (status !== 200 || this.req.method !== "POST" || Object.keys(headers).length > 0)
      return false;
    if (this.getHeaderNames().length > 0 || !this.shouldKeepAlive || !this.sendDate) return false;
    if (this._header !== null || keepAliveMs <= 0) return false;
    if (Buffer.byteLength(body) !== body.length) return false; // it leaves as Latin-1
    this.statusMessage = "OK";
    this._header = encodeOk(body, requestId, endingOf(keepAliveMs));
    this.end();
    return true;
  }
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
