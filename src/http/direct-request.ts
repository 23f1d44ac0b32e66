/**
 * A request whose body the HTTP parser hands over as it comes, without a stream in between, in our own
 * server only (`http.createServer`, option `IncomingMessage`). With the stream there are a tenth fewer
 * creates.
 *
 * Node documents neither that its parser calls `push` nor what it asks a request afterwards, and other
 * runtimes differ; so each process tries it once, and else does without (`isDirectSafe`).
 *
 * It is a stream like any other until a collector is attached, and again when the collector wants no
 * more, so refusals read or drop a rest as usual. In between nothing is buffered.
 */
import http, { IncomingMessage, ServerResponse } from "node:http";
import { Duplex } from "node:stream";
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
  /** Of http/request-message. */
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

  /** Called by Node's parser with each piece of a body, and with null after the last. */
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

  /** Called by Node on a request that was answered, to discard a body that nobody read. */
  override resume(): this {
    return this.#isCollected ? this : super.resume();
  }

  /** Node holds on to a request until this is so. */
  // @ts-expect-error The types call the accessor a property.
  override get readableEnded(): boolean {
    // @ts-expect-error The same.
    return this.#isCollected || super.readableEnded;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#collector?.leave();
    super._destroy(error, done);
  }
}

const TRIAL_BYTES_MAX = 9;
/** Of the event loop, for a result: far more than a runtime like Node takes. */
const TRIAL_TURNS_MAX = 1000;
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
 * Classes of the trial's own: V8 lays out the objects of a class by the first few. Laid out by those
 * of a trial, real requests took up to a half more time.
 */
class TrialRequest extends DirectRequest {}
class TrialResponse extends ServerResponse<TrialRequest> {}

let verdict: Promise<boolean> | undefined;

/**
 * Whether this runtime hands every byte of a body, its end, and the departure of the client over to
 * `DirectRequest`, and goes on with the next request afterwards. Each process finds out once, on a
 * connection in memory; never rejects.
 */
export function isDirectSafe(): Promise<boolean> {
  verdict ??= tryRequests().then(
    () => true,
    (error: unknown) => {
      publishWarning(
        "Request bodies take a slower path, because the check of the faster one failed",
        error,
      );
      return false;
    },
  );
  return verdict;
}

/** @throws Error when a result is not the expected one. */
async function tryRequests(): Promise<void> {
  const results: string[] = [];
  const settings = {
    IncomingMessage: TrialRequest,
    ServerResponse: TrialResponse,
    insecureHTTPParser: false,
  };
  const server = http.createServer(settings, (req, res) => {
    const budget = new Budget(TRIAL_BYTES_MAX);
    const collector = new BodyCollector(TRIAL_BYTES_MAX, budget, (body, failure) => {
      results.push(body?.toString("latin1") ?? failure?.code ?? CUT);
      res.end();
    });
    if (req instanceof DirectRequest) req.collect(collector);
  });
  const connection = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() });
  connection.on("error", () => {}); // a trial that fails has no result
  server.emit("connection", connection); // Node documents that any Duplex may be one
  for (const [expected, ...packets] of TRIALS) {
    for (const packet of packets) {
      connection.push(packet);
      await turn();
    }
    if (expected === CUT) connection.destroy();
    for (let turns = 0; results.length === 0 && turns < TRIAL_TURNS_MAX; turns++) await turn();
    const result = results.shift();
    if (result !== expected) throw new Error(`expected "${expected}", got "${result}"`);
  }
}
