/**
 * What the admin listener answers to a request. The texts are ready, or made at most ten times a second,
 * no matter who asks; and it refuses requests that browsers make for pages of other sites.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import {
  afterAnswer,
  encodeReply,
  errorReply,
  Lingering,
  lingerAfterEnd,
  okReply,
  type Reply,
  replyHeaders,
} from "../http/answer.ts";
import { OPENAPI } from "../http/openapi.ts";
import { nameRequest, pathOf } from "../http/request-message.ts";
import { encodeMetrics } from "./metrics.ts";
import { describeState, judgeState, readStatusDocument, type Sources, share } from "./status.ts";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "./status-page.ts";

type Route = () => Reply | Promise<Reply>;

function makeRoutes(sources: Sources): ReadonlyMap<string, Route> {
  const page = okReply(STATUS_PAGE, {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": STATUS_PAGE_POLICY,
  });
  const description = json(OPENAPI);
  return new Map(
    Object.entries<Route>({
      "/": () => page,
      "/openapi.json": () => description,
      "/healthz": () => json({ status: "ok" }),
      "/readyz": async () => {
        // A probe is impatient, so the disk is asked only if its answer matters.
        const isAsked = sources.status.store()?.refusedMsAgo !== undefined;
        const state = judgeState(sources, isAsked ? await sources.freeBytes() : undefined);
        const reply = json({ state, message: describeState(state, sources.status) });
        return { ...reply, status: state === "ready" ? 200 : 503 };
      },
      "/metrics": share(async () => {
        const text = encodeMetrics(sources, await sources.freeBytes());
        return okReply(text, { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" });
      }),
      "/status.json": share(async () => {
        return json(readStatusDocument(sources, await sources.freeBytes()));
      }),
    }),
  );
}

function json(document: unknown): Reply {
  return okReply(`${JSON.stringify(document)}\n`);
}

/** In every answer; the status page replaces the policy. */
const HEADERS = {
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Frame-Options": "DENY",
};

/** Publishes nothing, so that the metrics of the service do not count its answers. */
export class AdminHandler {
  readonly lingering = new Lingering();
  readonly #isOwn: (host: string | undefined) => boolean;
  readonly #routes: ReadonlyMap<string, Route>;

  /** @param isOwn whether a Host header names the listener. */
  constructor(isOwn: (host: string | undefined) => boolean, sources: Sources) {
    this.#isOwn = isOwn;
    this.#routes = makeRoutes(sources);
  }

  handle(req: IncomingMessage, res: ServerResponse): void {
    this.#answer(req).then((reply) => send(req, res, reply));
  }

  refuse(req: IncomingMessage, res: ServerResponse, fault: unknown): void {
    lingerAfterEnd({ req, res, lingering: this.lingering });
    send(req, res, errorReply(fault));
  }

  refuseBytes(socket: IncomingMessage["socket"], fault: unknown, last?: ServerResponse): void {
    const text = encodeReply(errorReply(fault), nameRequest());
    afterAnswer(last, () => this.lingering.close(socket, text));
  }

  /** Never rejects. */
  async #answer(req: IncomingMessage): Promise<Reply> {
    try {
      return await this.#findRoute(req)();
    } catch (error) {
      const reply = errorReply(error);
      if (reply.status === 500)
        publishWarning("Cannot answer a request to the admin listener", error);
      return reply.status === 405 ? { ...reply, headers: { Allow: "GET, HEAD" } } : reply;
    }
  }

  /** @throws PlantStoreError if the request is refused. */
  #findRoute({ headers, url = "", method }: IncomingMessage): Route {
    if (!this.#isOwn(headers.host)) {
      throw new PlantStoreError(
        "bad_request",
        "Host: expected an IP address, localhost or a name of the listener (--admin-host NAME)",
      );
    }
    // A page of the same site may link here: a dashboard on another port of this machine, for one.
    if (headers["sec-fetch-site"] === "cross-site") {
      throw new PlantStoreError(
        "bad_request",
        "Sec-Fetch-Site: expected no page of another site; open the address without its link",
      );
    }
    const route = this.#routes.get(pathOf(url));
    if (route === undefined) {
      const known = [...this.#routes.keys()].join(", ");
      throw new PlantStoreError("not_found", `path: expected one of ${known}`);
    }
    if (method === "GET" || method === "HEAD") return route;
    throw new PlantStoreError("method_not_allowed", `method: expected GET or HEAD, got ${method}`);
  }
}

function send(req: IncomingMessage, res: ServerResponse, reply: Reply): void {
  if (res.headersSent) return; // a fault of the body was answered first
  res.writeHead(reply.status, { ...HEADERS, ...replyHeaders(reply, nameRequest(req)) });
  res.end(req.method === "HEAD" ? undefined : reply.body);
}
