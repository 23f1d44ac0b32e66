/**
 * Lets pages of named origins use the service from a browser (the CORS protocol of the Fetch
 * standard); off unless origins are named. Requests from other pages are answered without CORS
 * headers, so the browser hides the answers from them. Cookies are not used, so `*` is safe.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { ANY_ORIGIN, assertOrigins } from "../core/options.ts";
import type { Reply } from "./answer.ts";
import { RESOURCES } from "./router.ts";

/** Headers of answers that a page may read, in addition to those of the Fetch standard. */
const EXPOSED = "ETag, Link, Retry-After, WWW-Authenticate, X-Request-Id";
const METHODS = RESOURCES.flatMap(({ operations }) => [...operations.keys()]);

/** For any path, so that a page can read a 404. Chromium remembers it for two hours at most. */
export const PREFLIGHT_REPLY: Reply = {
  status: 204,
  headers: {
    "Access-Control-Allow-Methods": [...new Set(METHODS)].join(", "),
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match, X-Request-Id",
    "Access-Control-Max-Age": "7200",
  },
  body: "",
};

export class Cors {
  readonly #origins: ReadonlySet<string>;

  /** @throws TypeError or RangeError for an invalid origin. */
  constructor(origins: readonly string[] = []) {
    assertOrigins(origins);
    this.#origins = new Set(origins);
  }

  /** Adds the headers of every answer to this request. */
  mark(req: IncomingMessage, res: ServerResponse): void {
    if (this.#origins.size === 0) return;
    for (const [name, value] of Object.entries(this.#headersFor(req.headers.origin))) {
      // A program that mounts the listener may have set more values.
      if (name === "Vary") res.appendHeader(name, value);
      else res.setHeader(name, value);
    }
  }

  /**
   * Adds the headers to the answer to bytes that did not become a request. The origin is guessed: the
   * last `Origin` in the packet, because valid requests may precede the invalid one; or else the only
   * named origin; or else that of the connection's last request. A wrong guess reveals nothing.
   */
  markReply(reply: Reply, packet?: Buffer, last?: string): Reply {
    const said = (packet?.toString("latin1") ?? "").matchAll(/\norigin:[ \t]*(\S+)/gi);
    const only = this.#origins.size === 1 ? [...this.#origins][0] : last;
    const headers = this.#headersFor([...said].at(-1)?.[1] ?? only);
    return { ...reply, headers: { ...reply.headers, ...headers } };
  }

  /** Whether the request is a preflight from a named origin. */
  isPreflight({ method, headers }: IncomingMessage): boolean {
    const { origin, "access-control-request-method": wanted } = headers;
    if (method !== "OPTIONS" || wanted === undefined || origin === undefined) return false;
    return "Access-Control-Allow-Origin" in this.#headersFor(origin);
  }

  #headersFor(origin = ""): Record<string, string> {
    if (this.#origins.size === 0) return {};
    const isOpen = this.#origins.has(ANY_ORIGIN);
    const vary = isOpen ? {} : { Vary: "Origin" };
    if (!isOpen && !this.#origins.has(origin)) return vary;
    return {
      ...vary,
      "Access-Control-Allow-Origin": isOpen ? ANY_ORIGIN : origin,
      "Access-Control-Expose-Headers": EXPOSED,
    };
  }
}
