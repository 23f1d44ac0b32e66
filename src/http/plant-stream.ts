/**
 * All plants as a stream of JSON lines (`application/x-ndjson`).
 *
 * A stream holds one slice, and reads the next one when the socket has taken it. So a stream that the
 * client does not read holds its lease and no more, and reading ends when the client leaves. The
 * streams of a listener take turns, one slice each, and rest while plants are created. A stream that
 * fails is cut without its last chunk, so that no client takes a part for the whole.
 */
import { setImmediate, setTimeout } from "node:timers/promises";
import { Gate } from "../core/gate.ts";
import { encodeNewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import { type Exchange, publishCut, reportFault } from "./answer.ts";
import type { ReadLease } from "./budget.ts";
import { type ListQuery, NDJSON } from "./list-query.ts";
import { type Reply, replyHeaders } from "./reply.ts";
import { nameRequest, publishAnswer } from "./request-message.ts";

/** Encoding this much takes about a millisecond. */
const SLICE_CHARACTERS = 32 * 1024;

/** The body has no length, and follows. */
const BEGINNING: Reply = {
  status: 200,
  headers: { "Content-Type": NDJSON, "X-Content-Type-Options": "nosniff" },
  body: "",
};

/** Copies of a slice of long plants in memory until it is sent: block, slice, text, bytes. */
const HELD_SLICES = 4;

/** A slice takes half a millisecond, so streams get 3 % of a server busy with creates. */
const REST_MS_MAX = 16;

/** Makes the streams of a listener take turns and give way to creates. */
export class StreamPace {
  readonly #creates: { readonly count: number };
  readonly #turns = new Gate(1);
  #countBefore = 0;

  /** @param creates counts the creates so far. */
  constructor(creates: { readonly count: number }) {
    this.#creates = creates;
  }

  /**
   * Waits for the rests of earlier streams, then a millisecond for each create since the last rest,
   * because creates under way are answered together. A stream that is over does not rest.
   */
  rest(stream: { readonly isOver: boolean }): Promise<void> {
    return this.#turns.pass(async () => {
      if (stream.isOver) return;
      const restMs = Math.min(REST_MS_MAX, this.#creates.count - this.#countBefore);
      this.#countBefore = this.#creates.count;
      await (restMs === 0 ? setImmediate() : setTimeout(restMs));
    });
  }
}

/**
 * Sends the slices. Resolves when all are sent or the client has left.
 *
 * @param checkSender throws or rejects if the sender may no longer read.
 * @param gate limits the slices that are read at once.
 * @throws what reading throws before the first slice is sent.
 */
export async function sendStream(
  exchange: Exchange,
  slices: AsyncGenerator<Uint8Array, undefined>,
  lease: ReadLease,
  checkSender: () => undefined | Promise<void>,
  { gate, pace }: { readonly gate: Gate; readonly pace: StreamPace },
): Promise<void> {
  const { req, res } = exchange;
  const requestId = nameRequest(req);
  let sentBytes = 0;
  let hasBegun = false;
  let isWhole = false;
  // A failure of the connection may be answered before the stream begins.
  const isOver = () => lease.isOver || (!hasBegun && res.headersSent);
  try {
    while (!lease.isOver) {
      const next = await lease.readIn(gate, () => slices.next());
      if (next !== undefined) await checkSender(); // which may wait
      if (next === undefined || isOver()) break;
      const slice = next.value;
      if (slice?.length === 0) {
        // Nothing was sent, but the client is not to blame: the stall timeout starts again.
        req.socket.setTimeout?.(req.socket.timeout ?? 0); // a test's stand-in has none
      } else {
        if (slice !== undefined) lease.hold(HELD_SLICES * slice.length);
        if (!hasBegun) res.writeHead(200, replyHeaders(BEGINNING, requestId));
        hasBegun = true;
        if (slice === undefined || req.method === "HEAD") {
          isWhole = true;
          res.end();
          break;
        }
        sentBytes += slice.length;
        if (res.write(slice) === false) await lease.room(res);
      }
      await pace.rest(lease);
    }
  } catch (error) {
    if (!isOver()) {
      if (!hasBegun) throw error;
      reportFault(exchange, "Cannot continue a stream of plants", error, requestId);
      res.destroy();
    }
  } finally {
    await slices.return(undefined);
  }
  if (hasBegun) publishAnswer({ status: 200, cut: !isWhole, sentBytes }, requestId, req);
  else publishCut(req, res);
}

/** Whole lines, a slice at a time. An empty slice means that work found no plant. */
export async function* sliceLines(
  plants: PlantService,
  { limit, after }: ListQuery,
): AsyncGenerator<Uint8Array, undefined> {
  if (limit === undefined && plants.listLines !== undefined) {
    yield* plants.listLines({ after });
    return;
  }
  let slice = "";
  let count = 0;
  for await (const plant of plants.list({ after })) {
    if (count++ === limit) break;
    slice += `${encodeNewPlant(plant)}\n`;
    if (slice.length < SLICE_CHARACTERS) continue;
    yield Buffer.from(slice);
    slice = "";
  }
  if (slice !== "") yield Buffer.from(slice);
}
