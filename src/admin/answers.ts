/** What the admin listener answers to a request. */
import type { IncomingMessage } from "node:http";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { OPENAPI } from "../http/openapi.ts";
import { errorReply, okReply, type Reply } from "../http/reply.ts";
import { findFramingFault } from "../http/request-head.ts";
import { pathOf } from "../http/router.ts";
import { encodeMetrics } from "./metrics.ts";
import { describeState, judgeState, readStatusDocument, type Sources } from "./status.ts";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "./status-page.ts";

type Route = (sources: Sources) => Reply | Promise<Reply>;

const ROUTES: ReadonlyMap<string, Route> = new Map(
  Object.entries<Route>({
    "/": () =>
      okReply(STATUS_PAGE, {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": STATUS_PAGE_POLICY,
      }),
    "/openapi.json": () => json(OPENAPI),
    "/healthz": () => json({ status: "ok" }),
    "/readyz": async (sources) => {
      // A probe is impatient, so the disk is asked only if its answer matters.
      const isAsked = sources.status.store()?.refusedMsAgo !== undefined;
      const state = judgeState(sources, isAsked ? await sources.freeBytes() : undefined);
      const reply = json({ state, message: describeState(state, sources.status) });
      return { ...reply, status: state === "ready" ? 200 : 503 };
    },
    "/metrics": async (sources) => {
      const text = encodeMetrics(sources, await sources.freeBytes());
      return okReply(text, { "Content-Type": "text/plain; version=0.0.4; charset=utf-8" });
    },
    "/status.json": async (sources) => json(readStatusDocument(sources, await sources.freeBytes())),
  }),
);

function json(document: unknown): Reply {
  return okReply(`${JSON.stringify(document)}\n`);
}

/** Whether a Host header names the listener. */
type HostJudge = (header: string | undefined) => boolean;

/** The answer to a request; never rejects. */
export async function answer(
  req: IncomingMessage,
  isOwn: HostJudge,
  sources: Sources,
): Promise<Reply> {
  try {
    return await findRoute(req, isOwn)(sources);
  } catch (error) {
    const reply = errorReply(error);
    if (reply.status === 500)
      publishWarning("Cannot answer a request to the admin listener", error);
    return { ...reply, headers: { ...reply.headers, ...REFUSAL_HEADERS[reply.status] } };
  }
}

const REFUSAL_HEADERS: Readonly<Record<number, Reply["headers"]>> = {
  400: { Connection: "close" }, // nobody knows where the next request begins
  405: { Allow: "GET, HEAD" },
  431: { Connection: "close" },
};

/** @throws PlantStoreError if the request is refused. */
function findRoute(req: IncomingMessage, isOwn: HostJudge): Route {
  const fault = findFramingFault(req);
  if (fault !== undefined) throw fault;
  if (!isOwn(req.headers.host)) {
    throw new PlantStoreError(
      "bad_request",
      "Host: expected an IP address, localhost or a name of the listener (--admin-host NAME)",
    );
  }
  const route = ROUTES.get(pathOf(req.url ?? ""));
  if (route === undefined) {
    const known = [...ROUTES.keys()].join(", ");
    throw new PlantStoreError("not_found", `path: expected one of ${known}`);
  }
  if (req.method === "GET" || req.method === "HEAD") return route;
  throw new PlantStoreError(
    "method_not_allowed",
    `method: expected GET or HEAD, got ${req.method}`,
  );
}
