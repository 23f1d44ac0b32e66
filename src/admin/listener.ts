/**
 * From a request to the admin listener to its answer. Everything is read only,
 * so there is GET and HEAD, and no body is ever read.
 *
 * Nobody is asked for a token. Pages of other origins are kept out: they cannot
 * read an answer, and a name of theirs that resolves to this machine is refused.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { AdminAddress } from "../core/host-port.ts";
import type { Status } from "../core/services.ts";
import { OPENAPI } from "../http/openapi.ts";
import { errorReply } from "../http/reply.ts";
import { findFramingFault } from "../http/request-head.ts";
import { pathOf } from "../http/router.ts";
import { isOwnHost } from "./address.ts";
import { EXPOSITION_TYPE, encodeMetrics } from "./exposition.ts";
import type { FreeBytes } from "./free-bytes.ts";
import { type BuildInfo, readServiceMetrics } from "./metrics.ts";
import { type EventLoopDelay, readProcessMetrics } from "./process-metrics.ts";
import { describeState, judgeState } from "./readiness.ts";
import type { Recorder } from "./recorder.ts";
import { readStatusDocument } from "./status-document.ts";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "./status-page.ts";

/** What the answers are made from. */
export interface AdminSources {
  readonly address: AdminAddress;
  readonly build: BuildInfo;
  readonly status: Status;
  readonly freeBytes: FreeBytes;
  readonly recorder: Recorder;
  readonly delay: EventLoopDelay;
}

interface AdminReply {
  readonly status: number;
  readonly type: string;
  readonly body: string;
  readonly headers?: Readonly<Record<string, string>>;
}

const JSON_TYPE = "application/json";

const ROUTES: Readonly<
  Record<string, (sources: AdminSources) => AdminReply | Promise<AdminReply>>
> = {
  "/": () => ({
    status: 200,
    type: "text/html; charset=utf-8",
    body: STATUS_PAGE,
    headers: { "Content-Security-Policy": STATUS_PAGE_POLICY },
  }),
  "/openapi.json": () => ({ status: 200, type: JSON_TYPE, body: `${JSON.stringify(OPENAPI)}\n` }),
  "/healthz": () => ({ status: 200, type: JSON_TYPE, body: '{"status":"ok"}\n' }),
  "/readyz": async ({ status, freeBytes, recorder }) => {
    // A probe is impatient: the disk is asked only where its answer counts.
    const free = recorder.refusedMsAgo === undefined ? undefined : await freeBytes.read();
    const state = judgeState(status, recorder, free);
    const body = `${JSON.stringify({ state, message: describeState(state, status) })}\n`;
    return { status: state === "ready" ? 200 : 503, type: JSON_TYPE, body };
  },
  "/metrics": async ({ status, freeBytes, recorder, build, delay }) => {
    const metrics = readServiceMetrics(status, recorder, build, await freeBytes.read());
    const body = encodeMetrics([...metrics, ...readProcessMetrics(delay)]);
    return { status: 200, type: EXPOSITION_TYPE, body };
  },
  "/status.json": async ({ status, freeBytes, recorder, build }) => {
    const free = await freeBytes.read();
    const document = readStatusDocument(status, recorder, build.version, free);
    return { status: 200, type: JSON_TYPE, body: JSON.stringify(document) };
  },
};

/** The headers of every answer; the page alone widens the policy. */
const HEADERS = {
  "Cache-Control": "no-store",
  "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

/** Answers one request. Never throws, never rejects. */
export async function answerAdmin(
  req: IncomingMessage,
  res: ServerResponse,
  sources: AdminSources,
): Promise<void> {
  const { status, type, body, headers } = await reply(req, sources).catch(refuse);
  res.writeHead(status, {
    "Content-Type": type,
    "Content-Length": Buffer.byteLength(body),
    ...HEADERS,
    ...headers,
  });
  res.end(req.method === "HEAD" ? undefined : body);
}

async function reply(req: IncomingMessage, sources: AdminSources): Promise<AdminReply> {
  const fault = findFramingFault(req);
  if (fault !== undefined) throw fault;

  if (!isOwnHost(req.headers.host, sources.address)) {
    throw new PlantStoreError(
      "bad_request",
      "Host: expected an IP address, localhost or the listener's own name (--admin NAME:PORT)",
    );
  }
  const path = pathOf(req.url ?? "");
  const route = Object.hasOwn(ROUTES, path) ? ROUTES[path] : undefined;
  if (route === undefined) {
    const known = Object.keys(ROUTES).join(", ");
    throw new PlantStoreError("not_found", `path: expected one of ${known}`);
  }
  if (req.method !== "GET" && req.method !== "HEAD") {
    throw new PlantStoreError(
      "method_not_allowed",
      `method: expected GET or HEAD, got ${req.method}`,
    );
  }
  return route(sources);
}

function refuse(error: unknown): AdminReply {
  const { status, body, headers } = errorReply(error);
  if (status === 500) publishWarning("Cannot answer a request to the admin listener", error);
  const allow = status === 405 ? { Allow: "GET, HEAD" } : {};
  // After a fault of the framing nobody knows where the next request begins.
  const close = status === 400 || status === 431 ? { Connection: "close" } : {};
  return { status, type: JSON_TYPE, body, headers: { ...headers, ...allow, ...close } };
}
