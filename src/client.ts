/**
 * The client of a plant store, over `fetch`, for Node.js, Bun, Deno and browsers: `plant-store/client`.
 *
 * Invariant. Repeating an identical request is harmless, so a request is sent again until a response settles
 * it. Only an empty page ends a list, so a response that a proxy cut never looks like the end.
 */
import { ERRORS, type ErrorCode, PlantStoreError, statusOf } from "./core/errors.ts";
import { assertInt64 } from "./core/json.ts";
import type { NewPlant, Plant } from "./core/plant.ts";
import { encodeNewPlant, parsePlantText, validatePlant } from "./core/plant.ts";
import { quote } from "./core/text.ts";

export { encodeNewPlant, type NewPlant, type Plant, PlantStoreError };

export interface ClientOptions {
  /** A bearer token (RFC 6750 section 2.1) that the store accepts. */
  readonly token: string;
  /** Milliseconds for a call, or for each page of a list: 1 to 2^31 - 1, by default 30,000. */
  readonly deadlineMs?: number;
  /** Sends each request. Default: the global `fetch`, looked up for each request. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** Ends the call, which rejects as at its deadline. */
  readonly signal?: AbortSignal | undefined;
}

/** An int64; a number must be a safe integer. */
type Id = bigint | number;

const DEADLINE_MS_MAX = 2 ** 31 - 1; // a longer timer fires at once
const ATTEMPT_MS = 10_000; // a connection that a balancer forgot must not take the whole deadline
const RESPONSE_BYTES_MAX = 5 * 1024 * 1024 + 1024; // a page of 1 MiB and the longest plant
/** After these statuses, most of them of proxies, a request is sent again. */
const REPEATED = /^(?:408|425|429|460|50[0234]|52\d|530)$/;
/** Failures of `fetch` that prove that nothing was sent. */
const UNSENT = /\bconnect E|CONNREFUSED|\(Connect\)|ENOTFOUND|EAI_AGAIN|CONNECT_TIMEOUT/;
/** Such failures which no repeat helps: certificates, blocked ports, arguments. */
const MISTAKE = /\bCERT_|_CERT(?!I)|LEAF_SIGN|peer cert|bad port|are blocked|RequestInit|'fetch'/;

/**
 * The operations of one store. A call sends its request again after a broken connection, after 10 s or a third of
 * the deadline without a response, and after 408, 425, 429, 502, 503, 504 and other statuses of proxies, but never after
 * a 500 of the store. It rejects with a PlantStoreError, whose `cause` is the failure before it (docs/client.md).
 */
export class PlantClient {
  readonly #plantsUrl: string;
  readonly #options: ClientOptions & { readonly deadlineMs: number; readonly attemptMs: number };

  /** @param url where the store is, with its base path: `https://plants.example/garden`. */
  constructor(url: string, options: ClientOptions) {
    const { token, deadlineMs = 30_000 } = options;
    if (!/^https?:\/\/[^/?#@]+(\/[^?#]*)?$/i.test(url)) {
      throw new TypeError("url: expected http: or https:, a host and a path, and nothing else");
    }
    if (typeof token !== "string" || !/^[\w.~+/-]+=*$/.test(token)) {
      throw new TypeError("token: expected a bearer token"); // the message does not show it
    }
    if (typeof deadlineMs !== "number" || !(deadlineMs >= 1 && deadlineMs <= DEADLINE_MS_MAX)) {
      throw new RangeError(`deadlineMs: expected 1 to ${DEADLINE_MS_MAX}, got ${deadlineMs}`);
    }
    this.#plantsUrl = `${new URL(url).href.replace(/\/$/, "")}/plants`;
    this.#options = { ...options, deadlineMs, attemptMs: Math.max(ATTEMPT_MS, deadlineMs / 3) };
  }

  /** Resolves with name and tag once the plant is durable, even if it was stored before. */
  async create(plant: Plant & { id: Id }, { signal }: CallOptions = {}): Promise<Plant> {
    const given = { id: toInt64(plant.id), name: plant.name, tag: plant.tag } as NewPlant;
    const { id, ...stored } = validatePlant(given);
    return this.#ask("", encodeNewPlant({ id, ...stored }), signal, (_, { name, tag }) => {
      if (name !== stored.name || tag !== stored.tag) throw new Error("another plant");
      return stored;
    });
  }

  /** Resolves with the plant that has this id, or with `undefined`. The token needs the scope `read`. */
  async get(id: Id, { signal }: CallOptions = {}): Promise<NewPlant | undefined> {
    const wanted = toInt64(id);
    return this.#ask(`/${wanted}`, null, signal, (text) => {
      const plant = parsePlantText(text);
      if (plant.id !== wanted) throw new Error("another plant");
      return plant;
    }).catch((error) => {
      if (error.code !== "unknown_plant") throw error;
      return undefined;
    });
  }

  /** All plants, oldest first, or those after one, with those created meanwhile. Needs the scope `read`. */
  async *list({ after, signal }: CallOptions & { after?: Id | undefined } = {}) {
    let cursor = after === undefined ? "" : `&after=${toInt64(after)}`;
    for (;;) {
      const page = await this.#ask(`?limit=1000${cursor}`, null, signal, parsePage);
      if (page.length === 0) return;
      for (const plant of page) {
        if (signal?.aborted === true) break; // the next request rejects
        cursor = `&after=${plant.id}`;
        yield plant;
      }
    }
  }

  /** Sends a request until a response settles it. @throws PlantStoreError. */
  async #ask<T>(path: string, body: string | null, signal: Signal, parse: Parse<T>): Promise<T> {
    const endsAt = performance.now() + this.#options.deadlineMs;
    const leftMs = () => (signal?.aborted === true ? 0 : Math.max(0, endsAt - performance.now()));
    const attempt = (ours: AbortSignal) => this.#attempt(path, body, ours, parse);
    let mayBeStored = false;
    let cause: unknown;
    for (let backoffMs = 100; ; backoffMs = Math.min(2 * backoffMs, 5_000)) {
      if (leftMs() <= 0) throw gaveUp(mayBeStored, cause ?? signal?.reason);
      const outcome = await within(Math.min(leftMs(), this.#options.attemptMs), signal, attempt);
      if ("value" in outcome) return outcome.value;
      if ("refusal" in outcome) throw Object.assign(outcome.refusal, cause ? { cause } : {});
      const { error, isUnsent, isMistake, askedMs = 0 } = outcome;
      mayBeStored ||= body !== null && !isUnsent;
      if (isMistake) throw gaveUp(mayBeStored, error);
      if (cause === undefined || leftMs() > 0) cause = error; // else the attempt was cut short
      const waitMs = askedMs > 0 && askedMs < leftMs() ? askedMs : Math.random() * backoffMs;
      await within(Math.min(waitMs, leftMs()), signal, () => new Promise(() => {}));
    }
  }

  async #attempt<T>(path: string, body: string | null, signal: AbortSignal, parse: Parse<T>) {
    const { token, fetch = globalThis.fetch } = this.#options; // browsers refuse it as a method
    const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
    const method = body === null ? "GET" : "POST";
    const send = async (options: RequestInit) =>
      fetch(this.#plantsUrl + path, { method, headers, body, redirect: "manual", ...options });
    try {
      const response = await send({ signal }).catch((error) => {
        if (error.name !== "TypeError" || !/signal/i.test(error.message)) throw error;
        return send({}); // fetch comes from another realm
      });
      return readOutcome(response, await readText(response), parse);
    } catch (error) {
      const isMistake = MISTAKE.test(describe(error));
      return { error, isMistake, isUnsent: isMistake || UNSENT.test(describe(error)) };
    }
  }
}

type Signal = AbortSignal | undefined;
type Parse<T> = (text: string, json: ReturnType<typeof JSON.parse>) => T;
type Failure = { error: unknown; isUnsent?: boolean; isMistake?: boolean; askedMs?: number };
type Outcome<T> = { value: T } | { refusal: PlantStoreError } | Failure;
type Work<T> = (signal: AbortSignal) => Promise<Outcome<T>>;

/** What an abort ends. All share one listener: Node.js warns of a leak at the eleventh listener of a signal. */
const ENDS = new Map<() => void, Signal>();
const endAborted = () => {
  for (const [end, signal] of ENDS) if (signal?.aborted === true) end();
};

/** Resolves like `work`, or with a failure after a time or an abort of `outer`; then aborts `work`. */
async function within<T>(ms: number, outer: Signal, work: Work<T>): Promise<Outcome<T>> {
  const ours = new AbortController();
  let stop: (error: unknown) => void = () => {};
  const stopped = new Promise<Failure>((resolve) => {
    stop = (error) => resolve({ error });
  });
  const timer = setTimeout(() => stop(new Error(`no response within ${Math.ceil(ms)} ms`)), ms);
  const end = () => stop(outer?.reason ?? "aborted");
  ENDS.set(end, outer);
  outer?.addEventListener("abort", endAborted);
  if (outer?.aborted === true) end();
  try {
    return await Promise.race([stopped, work(ours.signal)]);
  } finally {
    clearTimeout(timer);
    ENDS.delete(end);
    if (![...ENDS.values()].includes(outer)) outer?.removeEventListener("abort", endAborted);
    ours.abort();
  }
}

/** The text of a response, or a note if it is longer than a store ever sends. */
async function readText(response: Response): Promise<string> {
  const reader = response.body?.getReader?.();
  if (reader === undefined) return response.text(); // a fetch without streams
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    bytes += part.value.length;
    if (bytes > RESPONSE_BYTES_MAX) return `(more than ${RESPONSE_BYTES_MAX} bytes)`;
    text += decoder.decode(part.value, { stream: true });
  }
  return text + decoder.decode();
}

/** What a response says, by `{"error": int32, "message": string}` if it is a failure of a store. */
function readOutcome<T>({ status, headers }: Response, text: string, parse: Parse<T>): Outcome<T> {
  let ours: { error?: number; message?: string } = {};
  try {
    const json = JSON.parse(text);
    if (status === 200) return { value: parse(text, json) };
    if (typeof json.message === "string" && statusOf(json.error) === status) ours = json;
  } catch (error) {
    const isCut = (error as Error).name === "SyntaxError" && /^([[{]|$)/.test(text);
    if (isCut && status === 200) return { error: new Error("the response was cut") };
  }
  const hint = /^(?:0|3..)$/.test(String(status)) ? ", a redirect: use its URL," : ""; // 0 in browsers
  const other = `expected a response of a plant store, got status ${status}${hint} and ${quote(text)}`;
  const { error: number, message = other } = ours;
  const code = Object.entries(ERRORS).find(([, known]) => known === number)?.[0] as ErrorCode;
  const requestId = headers.get("X-Request-Id") ?? undefined;
  const error = new PlantStoreError(code ?? "unexpected_response", message, { number, requestId });
  const isFinal = !REPEATED.test(String(status)) || (status === 500 && number !== undefined);
  const asked = headers.get("Retry-After") ?? "";
  const askedMs = /^\d+$/.test(asked) ? 1000 * Number(asked) : Date.parse(asked) - Date.now();
  return isFinal ? { refusal: error } : { error, askedMs };
}

function gaveUp(mayBeStored: boolean, cause: unknown): PlantStoreError {
  const code = mayBeStored ? "outcome_unknown" : "unavailable";
  const what = mayBeStored ? "outcome unknown: send the same plant again" : "no usable response";
  return new PlantStoreError(code, `${what}; the last failure: ${describe(cause)}`, { cause });
}

/** The messages of a failure and its causes, with their codes. */
function describe(failure: unknown): string {
  const { message = failure, code, cause } = Object(failure);
  const text = typeof code === "string" ? `${message} (${code})` : `${message}`;
  return cause === undefined ? text : `${text}: ${describe(cause)}`;
}

function toInt64(id: Id): bigint {
  const int64 = Number.isSafeInteger(id) ? BigInt(id) : (id as bigint);
  assertInt64(int64);
  return int64;
}

/** Reads an array of plants as a store writes them. @throws unless it is one. */
function parsePage(text: string, json: unknown): NewPlant[] {
  if (!Array.isArray(json)) throw new Error("no page");
  const plants = text.slice(1, -1).split(/,(?=\{"id":)/); // a string never holds a bare quote
  return json.length === 0 ? [] : plants.map(parsePlantText);
}
