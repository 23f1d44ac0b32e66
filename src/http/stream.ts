/**
 * The lines of a list, in slices of whole lines; and all plants as a stream of them (`application/x-ndjson`).
 *
 * A stream holds one slice, and reads the next one when the socket has taken it. So a stream that the
 * client does not read holds its lease and no more, and reading ends when the client leaves. The
 * streams and pages of a listener take turns, one slice each, and rest while plants are created. A
 * stream that fails is cut without its last chunk, so that no client takes a part for the whole.
 */
import { setImmediate, setTimeout } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { Gate } from "../core/gate.ts";
import type { PlantService } from "../core/services.ts";
import { type Exchange, publishCut, type Reply, replyHeaders } from "./answer.ts";
import type { ReadLease } from "./body.ts";
import { nameRequest, publishAnswer } from "./request-message.ts";

export const NDJSON = "application/x-ndjson";

/** The body has no length, and follows. */
const BEGINNING: Reply = {
  status: 200,
  headers: { "Content-Type": NDJSON, "X-Content-Type-Options": "nosniff" },
  body: "",
};

/** Copies of a slice of long plants in memory until it is sent: block, slice, text, bytes. */
const HELD_SLICES = 4;

/** A slice takes half a millisecond, so lists get 3 % of a server busy with creates. */
const REST_MS_MAX = 16;
/** Slices that are read at once: the store does not know their lengths before. */
const READING_MAX = 8;

/** What lists give way to. */
export interface CreateCounts {
  /** The creates so far. */
  readonly count: number;
  /** Those whose plants are being stored. */
  readonly underWay: number;
}

/** Makes the lists of a listener, streams and pages, take turns and give way to creates. */
export class ListPace {
  readonly #creates: CreateCounts;
  readonly #turns = new Gate(1);
  readonly #reading = new Gate(READING_MAX);
  #countBefore = 0;

  constructor(creates: CreateCounts) {
    this.#creates = creates;
  }

  /**
   * Clients take turns. Waits for this client's turn, rests, then reads the next slice of its list. Resolves
   * with `undefined` if the lease is over by then.
   */
  async read(
    slices: Slices,
    lease: Pick<ReadLease, "readIn">,
  ): Promise<IteratorResult<Uint8Array> | undefined> {
    await lease.readIn(this.#turns, () => this.#rest());
    return lease.readIn(this.#reading, () => slices.next());
  }

  /**
   * Waits a millisecond for each create since the last rest, because creates under way are answered
   * together, and until none is under way; at most 16 ms in all.
   */
  async #rest(): Promise<void> {
    let restMs = Math.min(REST_MS_MAX, this.#creates.count - this.#countBefore);
    this.#countBefore = this.#creates.count;
    await (restMs === 0 ? setImmediate() : setTimeout(restMs));
    for (; restMs < REST_MS_MAX && this.#creates.underWay > 0; restMs++) await setTimeout(1);
  }
}

/**
 * Sends the slices. Resolves when all are sent or the client has left.
 *
 * @param checkSender throws or rejects if the sender may no longer read.
 * @throws what reading throws before the first slice is sent.
 */
export async function sendStream(
  exchange: Exchange,
  slices: Slices,
  lease: ReadLease,
  checkSender: () => undefined | Promise<void>,
  pace: ListPace,
): Promise<void> {
  const { req, res } = exchange;
  const requestId = nameRequest(req);
  let hasBegun = false;
  let isWhole = false;
  // A failure of the connection may be answered before the stream begins.
  const isOver = () => lease.isOver || (!hasBegun && res.headersSent);
  try {
    while (!lease.isOver) {
      const next = await pace.read(slices, lease);
      if (next !== undefined) await checkSender(); // which may wait
      if (next === undefined || isOver()) break;
      const slice = next.value;
      if (slice?.length === 0) {
        // Nothing was sent, but the client is not to blame: the stall timeout starts again.
        req.socket.setTimeout?.(req.socket.timeout ?? 0); // Fastify's inject() has no such member
      } else {
        if (slice !== undefined) lease.hold(HELD_SLICES * slice.length);
        if (!hasBegun) res.writeHead(200, replyHeaders(BEGINNING, requestId));
        hasBegun = true;
        if (slice === undefined || req.method === "HEAD") {
          isWhole = true;
          res.end();
          break;
        }
        if (res.write(slice) === false) await lease.room(res);
      }
    }
  } catch (error) {
    if (!isOver()) {
      if (!hasBegun) throw error;
      publishWarning("Cannot continue a stream of plants", error, requestId);
      res.destroy();
    }
  } finally {
    await slices.return(undefined);
  }
  if (hasBegun) publishAnswer({ status: 200, cut: !isWhole }, requestId, req);
  else publishCut(req, res);
}

const LINE_FEED = 0x0a;

/** An empty slice means that work found no plant. */
export type Slices = AsyncGenerator<Uint8Array, undefined>;

/** The first lines of a list: up to a number of them, or until they have a number of bytes. */
export class FirstLines {
  count = 0;
  bytes = 0;
  /** Whether a line came that is not wanted. */
  hasMore = false;
  readonly countMax: number;
  readonly #bytesMax: number;

  constructor(countMax: number, bytesMax = Number.POSITIVE_INFINITY) {
    this.countMax = countMax;
    this.#bytesMax = bytesMax;
  }

  /** Returns the lines of a slice that are wanted. */
  take(slice: Uint8Array): Uint8Array {
    let end = 0;
    while (end < slice.length && this.count < this.countMax && this.bytes < this.#bytesMax) {
      const start = end;
      end = slice.indexOf(LINE_FEED, start) + 1;
      this.count++;
      this.bytes += end - start;
    }
    this.hasMore = end < slice.length;
    return slice.subarray(0, end);
  }
}

/**
 * @param wanted all lines if it is absent; it takes note of the slices that were yielded.
 * @throws Error if the store yields a slice that does not end with a line feed, and as `PlantService.listLines`.
 */
export async function* sliceLines(
  plants: PlantService,
  after: bigint | undefined,
  wanted?: FirstLines,
): Slices {
  for await (const slice of plants.listLines({ after })) {
    if ((slice.at(-1) ?? LINE_FEED) !== LINE_FEED) {
      throw new Error("listLines: expected slices of whole lines, got one without its line feed");
    }
    yield wanted === undefined ? slice : wanted.take(slice);
    if (wanted?.hasMore === true) break;
  }
}
