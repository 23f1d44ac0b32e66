/**
 * The client of a plant store, over `fetch`, for Node.js, Bun, Deno and browsers: `plant-store/client`.
 *
 * Invariant. Repeating an identical request is harmless, so a request is sent again until a response settles
 * it. Only an empty page ends a list, so a response that a proxy cut never looks like the end. Uses nothing
 * that a browser lacks; `fetch` and signals may come from another realm.
 */
import { ERRORS, type ErrorCode, PlantStoreError, statusOf } from "./core/errors.ts";
import { assertInt64 } from "./core/json.ts";
import {
  encodeNewPlant,
  type NewPlant,
  type Plant,
  parsePlantText,
  validatePlant,
} from "./core/plant.ts";
import { quote } from "./core/text.ts";

export { encodeNewPlant, type NewPlant, type Plant, PlantStoreError };

export interface ClientOptions {
  /** A bearer token (RFC 6750 section 2.1) that the store accepts. */
  readonly token: string;
  /** Milliseconds for a call, or for each page of a list: 1 to 2^31 - 1, by default 30,000. */
  readonly deadlineMs?: number;
  /** Sends each request. Default: the global `fetch` at that moment. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** Ends the call, which rejects as at its deadline. */
  readonly signal?: AbortSignal | undefined;
}

/** An int64; a number must be a safe integer. */
type Id = bigint | number;

const TIMER_MS_MAX = 2 ** 31 - 1; // a longer one fires at once
const ATTEMPT_MS_MAX = 10_000;
/** A page of 1 MiB, if its last plant is the longest one. */
const RESPONSE_BYTES_MAX = 5 * 1024 * 1024 + 1024;
/** After these statuses, most of them of proxies, a request is sent again. */
const REPEATED = /^(?:408|425|429|460|50[0234]|52\d|530)$/;
/** Statuses and `error` numbers which prove that the plant was not stored. */
const NOT_STORED: readonly unknown[] = [425, 429, 40801, 50301, 50306];
/** Failures of `fetch` which prove that nothing was sent. */
const UNSENT = /\bconnect E|CONNREFUSED|connection ?refused|ENOTFOUND|EAI_AGAIN|CONNECT_TIMEOUT/i;
/** The same, and no repeat helps: certificates, blocked ports, arguments. */
const MISTAKE =
  /\bCERT_|_CERT\b|_CERT_|LEAF_SIGN|peer cert|bad port|RequestInit|'fetch'|Illegal inv/;

/**
 * The operations of one store.
 *
 * A call sends its request again after a broken connection, after 10 s without a response, and after 408, 425,
 * 429, 502, 503, 504 and other statuses of proxies, but never after a 500 of the store (docs/client.md). It
 * rejects with a PlantStoreError, whose `cause` is the failure before it.
 */
export class PlantClient {
  readonly #plantsUrl: string;
  readonly #options: ClientOptions & { readonly deadlineMs: number };

  /**
   * @param url where the store is, with its base path: `https://plants.example/garden`.
   * @throws TypeError or RangeError for an argument that cannot be used.
   */
  constructor(url: string, options: ClientOptions) {
    const { token, deadlineMs = 30_000 } = options;
    if (!/^https?:\/\/[^/?#@]+(\/[^?#]*)?$/i.test(url)) {
      throw new TypeError("url: expected http: or https:, a host and a path, and nothing else");
    }
    if (typeof token !== "string" || !/^[\w.~+/-]+=*$/.test(token)) {
      throw new TypeError("token: expected a bearer token"); // the message does not show it
    }
    if (typeof deadlineMs !== "number" || !(deadlineMs >= 1 && deadlineMs <= TIMER_MS_MAX)) {
      throw new RangeError(`deadlineMs: expected 1 to ${TIMER_MS_MAX}, got ${deadlineMs}`);
    }
    this.#plantsUrl = `${new URL(url).href.replace(/\/$/, "")}/plants`;
    this.#options = { ...options, deadlineMs };
  }

  /**
   * Creates a plant. Resolves with its name and tag once it is durable, also if it was stored before; rejects
   * with `conflict` if another plant has the id.
   */
  async create(plant: Plant & { id: Id }, { signal }: CallOptions = {}): Promise<Plant> {
    const { id, ...stored } = validatePlant({ ...plant, id: toInt64(plant.id) });
    const headers = { "Content-Type": "application/json" };
    const init = { method: "POST", headers, body: encodeNewPlant({ id, ...stored }) };
    return this.#ask("", init, signal, (text) => {
      const { name, tag } = JSON.parse(text);
      if (name !== stored.name || tag !== stored.tag) throw new Error("another plant");
      return stored;
    });
  }

  /** Resolves with the plant that has this id, or with `undefined`. The token needs the scope `read`. */
  async get(id: Id, { signal }: CallOptions = {}): Promise<NewPlant | undefined> {
    const wanted = toInt64(id);
    const parse = (text: string) => {
      const plant = parsePlantText(text);
      if (plant.id !== wanted) throw new Error("another plant");
      return plant;
    };
    return this.#ask(`/${wanted}`, {}, signal, parse).catch((error) => {
      if (error.code !== "unknown_plant") throw error;
      return undefined;
    });
  }

  /**
   * All plants, oldest first, or those after the plant with the id `after`; also those that are created
   * meanwhile. Rejects with `unknown_cursor` if no plant has that id. The token needs the scope `read`.
   */
  async *list({ after, signal }: CallOptions & { after?: Id | undefined } = {}) {
    let cursor = after === undefined ? "" : `&after=${toInt64(after)}`;
    for (;;) {
      const page = await this.#ask(`?limit=1000${cursor}`, {}, signal, parsePage);
      if (page.length === 0) return;
      for (const plant of page) {
        if (signal?.aborted === true) break; // the next request rejects
        cursor = `&after=${plant.id}`;
        yield plant;
      }
    }
  }

  /** Sends a request until a response settles it. @throws PlantStoreError. */
  async #ask<T>(path: string, init: RequestInit, signal: Signal, parse: Parse<T>): Promise<T> {
    const endsAt = performance.now() + this.#options.deadlineMs;
    const leftMs = () => (signal?.aborted === true ? 0 : endsAt - performance.now());
    const attempt = (ours: AbortSignal) => this.#attempt(path, init, ours, parse);
    let mayBeStored = false;
    let cause: unknown;
    for (let backoffMs = 100; ; backoffMs = Math.min(2 * backoffMs, 5_000)) {
      if (leftMs() <= 0) throw gaveUp(mayBeStored, cause ?? signal?.reason);
      const outcome = await within(Math.min(leftMs(), ATTEMPT_MS_MAX), signal, attempt);
      if ("value" in outcome) return outcome.value;
      const { error, isFinal, isHarmless, askedMs = 0 } = outcome;
      mayBeStored ||= init.method === "POST" && !isHarmless;
      if (isFinal && error instanceof PlantStoreError) {
        throw cause === undefined ? error : Object.assign(error, { cause });
      }
      if (isFinal) throw gaveUp(mayBeStored, error);
      if (cause === undefined || leftMs() > 0) cause = error; // else the attempt was cut short
      const isInTime = askedMs > 0 && askedMs < leftMs();
      await within(isInTime ? askedMs : Math.random() * backoffMs, signal, () => NEVER);
    }
  }

  /** Sends a request once. */
  async #attempt<T>(path: string, init: RequestInit, signal: AbortSignal, parse: Parse<T>) {
    const { token, fetch = globalThis.fetch } = this.#options; // browsers refuse it as a method
    const headers = { ...init.headers, Authorization: `Bearer ${token}` };
    const send = async (options: RequestInit) =>
      fetch(`${this.#plantsUrl}${path}`, { ...init, headers, redirect: "manual", ...options });
    try {
      const response = await send({ signal }).catch((error) => {
        if (error.name !== "TypeError" || !/signal/i.test(error.message)) throw error;
        return send({}); // fetch comes from another realm
      });
      return readOutcome(response, await readText(response), parse);
    } catch (error) {
      const text = describe(error);
      const isFinal = MISTAKE.test(text);
      return { error, isFinal, isHarmless: isFinal || UNSENT.test(text) };
    }
  }
}

type Signal = AbortSignal | undefined;
type Parse<T> = (text: string) => T;
/** With `isFinal` no repeat helps; with `isHarmless` the plant was not stored. */
type Failure = { error: unknown; isFinal?: boolean; isHarmless?: boolean; askedMs?: number };
type Outcome<T> = { value: T } | Failure;
type Work<T> = (signal: AbortSignal) => Promise<Outcome<T>>;

const NEVER = new Promise<never>(() => {});

/** The outcome of `work`, or a failure after a time or an abort of `outer`. Then the signal of `work` is aborted. */
async function within<T>(ms: number, outer: Signal, work: Work<T>): Promise<Outcome<T>> {
  const ours = new AbortController();
  let stop: (failure: Failure) => void = () => {};
  const stopped = new Promise<Failure>((resolve) => {
    stop = resolve;
  });
  const error = new Error(`no response within ${Math.ceil(ms)} ms`);
  const timer = setTimeout(() => stop({ error }), ms);
  const unfollow = outer && follow(outer, () => stop({ error: outer.reason ?? "aborted" }));
  try {
    return await Promise.race([stopped, work(ours.signal)]);
  } finally {
    clearTimeout(timer);
    unfollow?.();
    ours.abort();
  }
}

class Ends extends Set<() => void> {
  readonly run = () => {
    for (const end of this) end();
  };
}

const ENDS = new WeakMap<AbortSignal, Ends>();

/** Calls `end` at an abort. Calls share one listener of a signal: Node.js warns of a leak at the eleventh. */
function follow(signal: AbortSignal, end: () => void): () => void {
  const ends = ENDS.get(signal) ?? new Ends();
  ENDS.set(signal, ends);
  if (ends.size === 0) signal.addEventListener("abort", ends.run);
  ends.add(end);
  if (signal.aborted) end();
  return () => {
    ends.delete(end);
    if (ends.size === 0) signal.removeEventListener("abort", ends.run);
  };
}

/** The text of a response; a note in its place if it is longer than any of a store. */
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

function readOutcome<T>(response: Response, text: string, parse: Parse<T>): Outcome<T> {
  const { status, headers } = response;
  try {
    if (status === 200) return { value: parse(text) };
  } catch (error) {
    const { name, code } = error as PlantStoreError;
    const isJson = name !== "SyntaxError" && code !== "invalid_json";
    if (!isJson && /^[[{]/.test(text)) return { error: new Error("the response was cut") };
  }
  const error = errorOf(response, text);
  const { number } = error;
  const isFinal = !REPEATED.test(String(status)) || (status === 500 && number !== undefined);
  const asked = headers.get("Retry-After") ?? "";
  const askedMs = /^\d+$/.test(asked) ? 1000 * Number(asked) : Date.parse(asked) - Date.now();
  return { error, isFinal, isHarmless: NOT_STORED.includes(number ?? status), askedMs };
}

/** The failure that a response describes, by `{"error": int32, "message": string}` if a store sent it. */
function errorOf({ status, headers }: Response, body: string): PlantStoreError {
  const requestId = headers.get("X-Request-Id") ?? undefined;
  try {
    const { error: number, message } = JSON.parse(body);
    if (typeof message === "string" && statusOf(number) === status) {
      const known = Object.entries(ERRORS).find((entry) => entry[1] === number)?.[0] as ErrorCode;
      return new PlantStoreError(known ?? "unexpected_answer", message, { number, requestId });
    }
  } catch {} // it is not JSON
  const isRedirect = /^(?:0|3\d\d)$/.test(String(status)); // browsers show 0
  const got = isRedirect
    ? "a redirect: use the URL behind it"
    : `status ${status} and ${quote(body)}`;
  const message = `expected an answer of a plant store, got ${got}`;
  return new PlantStoreError("unexpected_answer", message, { requestId });
}

function gaveUp(mayBeStored: boolean, cause: unknown): PlantStoreError {
  const [code, what] = mayBeStored
    ? (["outcome_unknown", "the outcome is unknown: send the identical request again"] as const)
    : (["unavailable", "the store cannot be used now; nothing was stored"] as const);
  return new PlantStoreError(code, `${what}; the last failure: ${describe(cause)}`, { cause });
}

/** The messages of a failure and its causes, with their codes. */
function describe(failure: unknown): string {
  const { message = failure, code = "", cause } = Object(failure);
  const text = `${message} ${typeof code === "string" ? code : ""}`.trim();
  return cause === undefined ? text : `${text}: ${describe(cause)}`;
}

function toInt64(id: Id): bigint {
  const int64 = Number.isSafeInteger(id) ? BigInt(id) : (id as bigint);
  assertInt64(int64);
  return int64;
}

/** Reads an array of plants as a store writes them. @throws unless it is one. */
function parsePage(text: string): NewPlant[] {
  if (text === "[]") return [];
  if (!Array.isArray(JSON.parse(text))) throw new Error("no page"); // or it is a part of one
  const plants = text.slice(1, -1).split(/,(?=\{"id":)/); // which no string holds, because of the quote
  return plants.map(parsePlantText);
}
