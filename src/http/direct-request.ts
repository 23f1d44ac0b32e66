/**
 * A request whose body the HTTP parser hands over as it comes, without a
 * stream in between: only in our own server, which may name its class of
 * requests (`http.createServer`, option `IncomingMessage`). With the stream the
 * server makes a tenth fewer creates at 64 connections, and a ninth at 256.
 *
 * Node documents neither that its parser calls `push` nor what it asks a request afterwards, and
 * other runtimes differ; so each process tries it once, and else does without (`isDirectSafe`).
 *
 * It is a stream like any other until a collector is attached, and again when
 * the collector wants no more; so refusals read or drop a rest as usual. In
 * between nothing is buffered and there is nothing to resume.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import http, { IncomingMessage, type Server, ServerResponse } from "node:http";
import net from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { BodyCollector, collectStream } from "./body.ts";
import { Budget } from "./budget.ts";
import { NOTED, type Noted } from "./request-message.ts";

export class DirectRequest extends IncomingMessage {
  #collector: BodyCollector | undefined;
  #hasBegun = false;
  /** All of the body went to a collector. */
  #isCollected = false;
  /** Not this file's. */
  [NOTED]: Noted | undefined = undefined;

  /** Feeds a collector; like a stream, where some of the body has come before. */
  collect(collector: BodyCollector): void {
    if (this.#hasBegun || this.destroyed) collectStream(this, collector);
    else this.#collector = collector;
  }

  /** Whether its body goes, or went, to a collector; so its head was judged. */
  get isCollecting(): boolean {
    return this.#collector !== undefined;
  }

  /** Ends the collection of a body whose request was answered before its end. */
  stopCollecting(): void {
    this.#collector?.leave();
  }

  /** What Node's parser calls with each piece of a body, and with null behind the last. */
  override push(chunk: Buffer | null): boolean {
    this.#hasBegun = true;
    const collector = this.#collector;
    if (collector === undefined) return super.push(chunk);
    if (chunk === null) {
      this.#isCollected = true;
      collector.end();
    } else {
      collector.add(chunk);
      if (collector.isDone) this.#collector = undefined;
    }
    return true;
  }

  /** What Node calls on a request that was answered, to be rid of a body that nobody read. */
  override resume(): this {
    return this.#isCollected ? this : super.resume();
  }

  /** Node holds on to a request until this is so. */
  // @ts-expect-error The types call it a property, and so overlook the accessor that it is.
  override get readableEnded(): boolean {
    // @ts-expect-error The same.
    return this.#isCollected || super.readableEnded;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#collector?.leave();
    super._destroy(error, done);
  }
}

/** A machine that is busy takes its time, and a process that gives up is slower for good. */
const TRIAL_MS = 5000;
const TRIAL_BYTES_MAX = 9;
const HEAD = "POST / HTTP/1.1\r\nHost: a\r\n";
const CUT = "cut";

/** Requests on one connection, packet by packet, and what a collector makes of each. */
const TRIALS: readonly (readonly [expected: string, ...packets: string[]])[] = [
  ["one", `${HEAD}Content-Length: 3\r\n\r\none`],
  ["onetwo", `${HEAD}Content-Length: 6\r\n\r\none`, "two"],
  ["onetwo", `${HEAD}Transfer-Encoding: chunked\r\n\r\n3\r\none\r\n3\r\ntwo\r\n`, "0\r\n\r\n"],
  ["body_too_large", `${HEAD}Content-Length: 12\r\n\r\n1234567890`, "12"],
  ["", `${HEAD}Content-Length: 0\r\n\r\n`],
  [CUT, `${HEAD}Content-Length: 6\r\n\r\none`],
];

/**
 * Classes of the trial's own: V8 lays out the objects of a class by the first few that are made of
 * it. Laid out by those of a trial, real requests took up to a half more time at 1,024 connections.
 */
class TrialRequest extends DirectRequest {}
class TrialResponse extends ServerResponse<TrialRequest> {}

let verdict: Promise<boolean> | undefined;

/**
 * Whether this runtime hands over to `DirectRequest` every byte of a body, its end, and the news
 * that the client has left, and goes on with the next request afterwards. Each process finds out
 * once, by real requests to a server that exists for this alone; never rejects.
 */
export function isDirectSafe(): Promise<boolean> {
  verdict ??= tryRequests().then(
    () => true,
    (error: Error) => {
      // A process that was busy for so long says nothing about its runtime: the next server tries again.
      if (error.name === "AbortError") verdict = undefined;
      publishWarning(
        "Request bodies take a slower path, because the check of the faster one failed",
        error,
      );
      return false;
    },
  );
  return verdict;
}

/** @throws Error when a result is not the expected one, or takes longer than `TRIAL_MS`. */
async function tryRequests(): Promise<void> {
  const signal = AbortSignal.timeout(TRIAL_MS);
  const settings = {
    IncomingMessage: TrialRequest,
    ServerResponse: TrialResponse,
    insecureHTTPParser: false,
  };
  const server = http.createServer(settings, (req, res) => {
    collectTrial(req, res, (result) => server.emit("result", result));
  });
  const client = new net.Socket();
  for (const end of [server, client]) end.on("error", () => {}); // what fails has no result
  try {
    // On Linux at a name that is no file: a firewall may close even loopback.
    const path = process.platform === "linux" ? `\0plant-store-trial-${randomUUID()}` : undefined;
    const where = path === undefined ? { port: 0, host: "127.0.0.1" } : { path };
    server.listen({ ...where, exclusive: true }); // in a worker of a cluster by itself, too
    await once(server, "listening", { signal });
    const { port } = server.address() as net.AddressInfo; // undefined if there is a path
    client.connect({ ...where, port } as net.NetConnectOpts);
    for (const trial of TRIALS) await sendTrial(client, server, trial, signal);
  } finally {
    client.destroy();
    server.close();
    server.closeAllConnections();
  }
}

function collectTrial(
  req: IncomingMessage,
  res: ServerResponse,
  report: (result: string) => void,
): void {
  const collector = new BodyCollector(
    TRIAL_BYTES_MAX,
    new Budget(TRIAL_BYTES_MAX),
    (body, failure) => {
      report(body?.toString("latin1") ?? failure?.code ?? CUT);
      res.end();
    },
  );
  if (req instanceof DirectRequest) {
    req.collect(collector);
  } else {
    report("a request of another class");
    res.end();
  }
}

async function sendTrial(
  client: net.Socket,
  server: Server,
  [expected, ...packets]: (typeof TRIALS)[number],
  signal: AbortSignal,
): Promise<void> {
  const [[result]] = await Promise.all([
    once(server, "result", { signal }),
    expected === CUT || once(client, "data", { signal }),
    sendPackets(client, packets).then(() => expected === CUT && client.destroy()),
  ]);
  if (result !== expected) throw new Error(`expected "${expected}", got "${result}"`);
}

async function sendPackets(client: net.Socket, packets: readonly string[]): Promise<void> {
  for (const packet of packets) {
    client.write(packet);
    await turn();
  }
}
