/**
 * The operations that read: one plant, a page of plants, or a stream of all of them.
 *
 * They pass on the lines of the store, and neither parse nor encode them. All lists of a listener take turns: one
 * slice of one list in a turn of the event loop, so creates come in between. A stream holds one slice, and reads the
 * next one when the socket has taken it. It verifies its token before it sends each slice, and is cut without its
 * last chunk if it fails, so that no client takes a part for the whole.
 */
import { setImmediate } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { INT64_RANGE, parseCanonicalInt64 } from "../core/json.ts";
import { Semaphore } from "../core/semaphore.ts";
import type { PlantService } from "../core/services.ts";
import { quote } from "../core/text.ts";
import type { Exchange } from "./exchange.ts";

export const LIMIT_DEFAULT = 100;
export const LIMIT_MAX = 1000;

/** A block that the store reads, a slice, and what the socket has not taken yet. */
const LIST_BYTES = 256 * 1024;
/** Of a slice of long lines, or of a page, until it is sent. */
const COPIES = 4;
const PAGE_BYTES_MAX = 1024 * 1024;
const NDJSON = "application/x-ndjson";
const LINE_FEED = 0x0a;

/** Slices of whole lines; the last result says whether more lines follow. */
type Slices = AsyncGenerator<Uint8Array, boolean>;

export class Reads {
  readonly #plants: PlantService;
  /** At most 64 are in the store, where they would pile up; one that waits is skipped if its client has left. */
  readonly #reading = new Semaphore(64);
  readonly #turns = new Semaphore(1);

  constructor(plants: PlantService) {
    this.#plants = plants;
  }

  /** @throws PlantStoreError `overloaded`, `unknown_plant`, or what the store throws. */
  async get(exchange: Exchange, id: bigint): Promise<void> {
    exchange.hold(0);
    const line = await this.#reading.run(async () => {
      return exchange.isOver ? undefined : this.#plants.getLine(id);
    });
    if (exchange.isOver) return;
    if (line === undefined) {
      throw new PlantStoreError("unknown_plant", `id: there is no plant ${id}`);
    }
    exchange.hold(line.length);
    exchange.respond(200, line);
  }

  /** @throws PlantStoreError `invalid_query`, `overloaded`, or what the store or the token check throws. */
  async list(exchange: Exchange): Promise<void> {
    const { httpVersion, headers, url = "" } = exchange.req;
    // HTTP/1.0 has no chunks, so its client could not notice that a stream was cut.
    const isStream = httpVersion !== "1.0" && headers.accept?.toLowerCase().includes(NDJSON);
    const query = parseListQuery(url, isStream ? Number.POSITIVE_INFINITY : LIMIT_DEFAULT);
    exchange.hold(LIST_BYTES);
    const bytesMax = isStream ? Number.POSITIVE_INFINITY : PAGE_BYTES_MAX;
    const slices = this.#slices(exchange, query, bytesMax);
    try {
      await (isStream ? sendStream(exchange, slices) : sendPage(exchange, slices, query.limit));
    } finally {
      await slices.return(false);
    }
  }

  /** The first lines of a list: up to a number of them, or until they have a number of bytes. */
  async *#slices(exchange: Exchange, { after, limit }: Query, bytesMax: number): Slices {
    const slices = this.#plants.listLines({ after })[Symbol.asyncIterator]();
    let [lines, bytes] = [0, 0];
    try {
      for (;;) {
        const next = await this.#turns.run(async () => {
          if (!exchange.isOver) await setImmediate(); // a list whose client has left waits for nothing
          return exchange.isOver ? undefined : slices.next();
        });
        await exchange.verifyAgain();
        if (next === undefined || next.done === true) return false;
        const slice = next.value;
        let end = limit === Number.POSITIVE_INFINITY ? slice.length : 0;
        while (end < slice.length && lines < limit && bytes < bytesMax) {
          const start = end;
          end = slice.indexOf(LINE_FEED, start) + 1;
          lines++;
          bytes += end - start;
        }
        if (end > 0) yield slice.subarray(0, end);
        if (end < slice.length) return true;
      }
    } finally {
      await slices.return?.();
    }
  }
}

/** @throws what fails before the first slice is sent. */
async function sendStream(exchange: Exchange, slices: Slices): Promise<void> {
  const { req, res, requestId } = exchange;
  try {
    let next = await slices.next();
    if (res.headersSent) return;
    res.writeHead(200, [...exchange.headers, "Content-Type", NDJSON]);
    while (next.done !== true && req.method !== "HEAD" && !exchange.isOver) {
      exchange.hold(COPIES * next.value.length);
      if (!res.write(next.value)) await drained(exchange);
      next = await slices.next();
    }
    exchange.publish(200, undefined, exchange.isOver);
    res.end();
  } catch (error) {
    if (!res.headersSent) throw error;
    const isRevoked = error instanceof PlantStoreError && error.code === "invalid_token";
    const text = "Cannot continue a stream of plants";
    if (!exchange.isOver && !isRevoked) publishWarning(text, error, requestId);
    exchange.publish(200, undefined, true);
    res.destroy();
  }
}

/** Resolves when the socket takes more, or the response is over. */
function drained(exchange: Exchange): Promise<void> {
  return new Promise((resolve) => {
    exchange.wake = resolve;
    exchange.res.once("drain", resolve);
  });
}

async function sendPage(exchange: Exchange, slices: Slices, limit: number): Promise<void> {
  const lines: Uint8Array[] = [];
  let [next, bytes] = [await slices.next(), LIST_BYTES];
  for (; next.done !== true; next = await slices.next()) {
    bytes += COPIES * next.value.length;
    exchange.hold(bytes);
    lines.push(next.value);
  }
  const text = Buffer.concat(lines).toString().slice(0, -1);
  const [, id] = /^\{"id":(-?\d+)/.exec(text.slice(text.lastIndexOf("\n") + 1)) ?? [];
  // Relative (RFC 3986 section 5.3), so that it is right through a proxy that serves another path.
  if (next.value) exchange.headers.push("Link", `<?limit=${limit}&after=${id}>; rel="next"`);
  exchange.respond(200, `[${text.replaceAll("\n", ",")}]`);
}

type Query = ReturnType<typeof parseListQuery>;
const LIMIT = /^[1-9][0-9]{0,3}$/;

/** @throws PlantStoreError `invalid_query`. */
function parseListQuery(target: string, limitDefault: number) {
  const query = new URLSearchParams(/\?.*/s.exec(target)?.[0]);
  const [limit, after] = [query.get("limit"), query.get("after")];
  const parsed = {
    limit: LIMIT.test(limit ?? "") && Number(limit) <= LIMIT_MAX ? Number(limit) : undefined,
    after: after === null ? undefined : parseCanonicalInt64(after),
  };
  const valid = Object.values(parsed).filter((value) => value !== undefined);
  // Each parameter is one of these, and is there once.
  if (valid.length === query.size) return { ...parsed, limit: parsed.limit ?? limitDefault };
  const expected = `one limit from 1 to ${LIMIT_MAX} and one id ${INT64_RANGE} as after, or neither`;
  const message = `query: expected ${expected}, got ${quote(`${query}`)}`;
  throw new PlantStoreError("invalid_query", message);
}
