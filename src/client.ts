/**
 * The client of a plant store, over `fetch`, for Node.js, Bun, Deno and browsers: `plant-store/client`.
 *
 * Invariant. To repeat an identical request does no harm, so a request is sent again until an answer
 * settles it; a call that gives up before reports that the outcome is unknown. A list continues after
 * the last plant that it has yielded. Uses nothing that a browser lacks.
 */
import { failureOf, PlantStoreError } from "./core/errors.ts";
import { assertInt64, parseInt64, scanJson } from "./core/json.ts";
import { encodeNewPlant, type NewPlant, type Plant, validatePlant } from "./core/plant.ts";

export { encodeNewPlant, type NewPlant, type Plant, PlantStoreError };

export interface ClientOptions {
  /** A bearer token (RFC 6750 section 2.1) that the store accepts. */
  readonly token: string;
  /** Milliseconds for a call, and for a list until its next plant: 1 to 2^31 - 1, by default 30,000. */
  readonly deadlineMs?: number;
  /** Sends each request, and obeys its `signal`. Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch;
}

export interface CallOptions {
  /** Ends the call, which then rejects with `outcome_unknown`. */
  readonly signal?: AbortSignal | undefined;
}

const TIMER_MS_MAX = 2 ** 31 - 1; // a longer one fires at once
const BACKOFF_MS_MIN = 100;
const BACKOFF_MS_MAX = 5_000;
/** After these, also from a proxy, a request is sent again. */
const REPEATED_STATUSES = [408, 429, 502, 503, 504];
const NDJSON = "application/x-ndjson";

/**
 * The operations of one store.
 *
 * A call sends its request again after a broken connection, after 408, 429, 502, 503 and 504, also of a
 * proxy, and never after 500 (docs/api.md, "When to send a request again"). Before each
 * repeat it waits as long as `Retry-After` asks, if that ends before the deadline; else a random time of
 * at most 100 ms, which doubles with each repeat up to 5 s.
 *
 * A call rejects with a PlantStoreError: with the `code` and `number` of the answer; `unexpected_answer`
 * if no plant store gives it; or `outcome_unknown` if the deadline or an abort came first. Its
 * `cause` is the failure of the attempt before, if there was one.
 */
export class PlantClient {
  readonly #plantsUrl: string;
  readonly #options: Required<ClientOptions>;

  /**
   * @param url where the store is, with its base path: `https://plants.example/garden`.
   * @throws TypeError or RangeError for an argument that cannot be used.
   */
  constructor(url: string, options: ClientOptions) {
    const { token, deadlineMs = 30_000, fetch = globalThis.fetch } = options;
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
    this.#options = { token, deadlineMs, fetch };
  }

  /**
   * Creates a plant. Resolves with its name and tag once it is durable, also if it was stored before.
   *
   * @throws TypeError or RangeError unless it is a plant; else as {@link PlantClient}, with `conflict` if
   * another plant has the id.
   */
  async create(plant: NewPlant, { signal }: CallOptions = {}): Promise<Plant> {
    const { id, ...stored } = validatePlant(plant);
    const headers = { "Content-Type": "application/json" };
    const init = { method: "POST", headers, body: encodeNewPlant({ id, ...stored }) };
    const text = await this.#ask("", init, signal);
    const { name, tag } = parsePlant(text, id);
    if (name !== stored.name || tag !== stored.tag) throw failureOf(200, text);
    return stored;
  }

  /**
   * Resolves with the plant that has this id, or with `undefined` if none has it. The token needs the
   * scope `read`.
   *
   * @throws TypeError or RangeError unless the id is an int64; else as {@link PlantClient}.
   */
  async get(id: bigint, { signal }: CallOptions = {}): Promise<NewPlant | undefined> {
    assertInt64(id);
    try {
      return parsePlant(await this.#ask(`/${id}`, {}, signal));
    } catch (error) {
      if (error instanceof PlantStoreError && error.code === "unknown_plant") return undefined;
      throw error;
    }
  }

  /**
   * All plants, oldest first, or those after the plant with the id `after`; after a broken connection
   * also those that were created meanwhile. The token needs the scope `read`.
   *
   * @throws during iteration: TypeError or RangeError unless `after` is an int64; else as
   * {@link PlantClient}, with `unknown_cursor` if no plant has that id.
   */
  async *list({ after, signal }: CallOptions & { readonly after?: bigint | undefined } = {}) {
    if (after !== undefined) assertInt64(after);
    const controller = follow(signal);
    let query = after === undefined ? "" : `?after=${after}`;
    let stream: ReturnType<typeof readStream> | undefined;
    const readLines = async () => {
      const init = { headers: { Accept: NDJSON } };
      const reading = stream ?? readStream(await this.#send(query, init, controller.signal));
      stream = undefined; // if this read fails, the next one begins another stream
      const { value } = await reading.next();
      stream = reading;
      return value;
    };
    try {
      for (;;) {
        const lines = await this.#repeat(controller, readLines);
        if (lines === undefined) return;
        for (const line of lines) {
          if (controller.signal.aborted) break; // the next read rejects
          const plant = parsePlant(line);
          query = `?after=${plant.id}`;
          yield plant;
        }
      }
    } finally {
      controller.abort();
    }
  }

  /** Resolves with the body of an answer 200. */
  async #ask(path: string, init: RequestInit, signal: AbortSignal | undefined): Promise<string> {
    const controller = follow(signal);
    const attempt = async () => (await this.#send(path, init, controller.signal)).text();
    try {
      return await this.#repeat(controller, attempt);
    } finally {
      controller.abort();
    }
  }

  /** Resolves with an answer 200. @throws PlantStoreError, or what `fetch` throws. */
  async #send(path: string, init: RequestInit, signal: AbortSignal): Promise<Response> {
    const { token, fetch } = this.#options; // that of browsers must not be called as a method
    const headers = { ...init.headers, Authorization: `Bearer ${token}` };
    const answer = await fetch(`${this.#plantsUrl}${path}`, { ...init, headers, signal });
    if (answer.status === 200) return answer;
    const failure = failureOf(answer.status, await answer.text());
    if (REPEATED_STATUSES.includes(answer.status)) {
      ASKED_MS.set(failure, parseRetryAfter(answer.headers.get("Retry-After") ?? ""));
    }
    throw failure;
  }

  /** Tries until an attempt is settled, within a deadline of its own. @throws PlantStoreError. */
  async #repeat<T>(controller: AbortController, attempt: () => Promise<T>): Promise<T> {
    const { signal } = controller;
    const { deadlineMs } = this.#options;
    const endsAt = performance.now() + deadlineMs;
    const timer = setTimeout(() => controller.abort(new Error("the deadline passed")), deadlineMs);
    let cause: unknown;
    try {
      for (let backoffMs = BACKOFF_MS_MIN; ; backoffMs = Math.min(2 * backoffMs, BACKOFF_MS_MAX)) {
        try {
          signal.throwIfAborted();
          return await attempt();
        } catch (error) {
          const askedMs = ASKED_MS.get(error as Error);
          const isFailure = error instanceof PlantStoreError && error !== signal.reason;
          if (isFailure && askedMs === undefined) throw Object.assign(error, cause && { cause });
          if (!signal.aborted) cause = error;
          else throw new PlantStoreError("outcome_unknown", UNKNOWN, { cause: cause ?? error });
          const isInTime = askedMs && askedMs > 0 && performance.now() + askedMs < endsAt;
          await sleep(isInTime ? askedMs : Math.random() * backoffMs, signal);
        }
      }
    } finally {
      clearTimeout(timer);
    }
  }
}

/** The failures after which a request is sent again, with what `Retry-After` asks for. */
const ASKED_MS = new WeakMap<Error, number>();
const UNKNOWN = "the outcome is unknown: send the identical request again";

/** Milliseconds from seconds or a date (RFC 9110 section 10.2.3); NaN for other text. */
function parseRetryAfter(text: string): number {
  return /^\d+$/.test(text) ? 1000 * Number(text) : Date.parse(text) - Date.now();
}

/** Makes a controller that is aborted with `outer`, which forgets it once it is aborted. */
function follow(outer: AbortSignal | undefined): AbortController {
  const controller = new AbortController();
  const abort = () => controller.abort(outer?.reason);
  if (outer?.aborted === true) abort();
  else outer?.addEventListener("abort", abort, { signal: controller.signal });
  return controller;
}

/** Resolves after a time, and earlier when `outer`, which is not aborted yet, is aborted. */
async function sleep(ms: number, outer: AbortSignal): Promise<void> {
  const controller = follow(outer);
  const timer = setTimeout(() => controller.abort(), ms);
  await new Promise((resolve) => controller.signal.addEventListener("abort", resolve));
  clearTimeout(timer);
}

/** The whole lines of a stream, some at a time. @throws Error, or what reading throws, if it is cut. */
async function* readStream({ headers, body }: Response): AsyncGenerator<string[], undefined> {
  const type = headers.get("Content-Type") ?? "no media type";
  if (body === null || !type.startsWith(NDJSON)) throw failureOf(200, type);
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    const lines = decoder.decode(next.value, { stream: true }).split("\n");
    lines[0] = `${rest}${lines[0]}`;
    rest = lines.pop() ?? "";
    if (lines.length > 0) yield lines;
  }
  if (rest !== "") throw new Error("the stream ended within a line");
}

/** Reads a plant in any spelling; `id` is for a text without one. @throws PlantStoreError. */
function parsePlant(text: string, id?: bigint): NewPlant {
  try {
    const plant = { ...JSON.parse(text), id };
    scanJson(text, (name, value) => {
      if (JSON.parse(name) === "id") plant.id = parseInt64(value);
    });
    return validatePlant(plant);
  } catch {
    throw failureOf(200, text);
  }
}
