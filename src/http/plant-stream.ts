/**
 * All plants as a stream of JSON lines (`application/x-ndjson`).
 *
 * A stream holds one slice: the next is read when the socket has taken it, so a client that does not
 * read costs its lease and no more, and one that leaves ends the reading. All streams of a listener
 * take turns, a slice each, and rest while plants are created. A stream that cannot go on is cut
 * without its last chunk, so that no client takes the part for the whole.
 */
import type { ServerResponse } from "node:http";
import { setImmediate, setTimeout } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import type { Gate } from "../core/gate.ts";
import { encodeNewPlant, type NewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import { answerNobody, type Exchange } from "./answer.ts";
import type { ReadLease } from "./budget.ts";
import { type ListQuery, NDJSON } from "./list-query.ts";
import { streamHeaders } from "./reply.ts";
import { nameRequest, publishAnswer } from "./request-message.ts";

/** About a millisecond's work, if plants have to be encoded. */
const SLICE_CHARACTERS = 32 * 1024;

/** What a slice of long plants holds until it is sent: its block, itself, its text, its bytes. */
const HELD_SLICES = 4;

/**
 * A slice takes the event loop half a millisecond, so all streams together take some 3 % of it beside
 * creates that keep it busy.
 */
const REST_MS_MAX = 16;

/** The pace of all streams of a listener: one slice after the other, and creates come first. */
export class StreamPace {
  readonly #countCreates: () => number;
  #creates: number;
  #last: Promise<unknown> = Promise.resolve();

  /** @param countCreates how many creates there were so far. */
  constructor(countCreates: () => number) {
    this.#countCreates = countCreates;
    this.#creates = countCreates();
  }

  /** Resolves when the streams that asked before have rested, and this one too unless it is over. */
  async rest(stream: { readonly isOver: boolean }): Promise<void> {
    this.#last = this.#last.then(() => (stream.isOver ? undefined : this.#rest()));
    await this.#last;
  }

  /** For a millisecond a create since the last rest: creates under way are answered all at once. */
  #rest(): Promise<unknown> {
    const before = this.#creates;
    this.#creates = this.#countCreates();
    const restMs = Math.min(REST_MS_MAX, this.#creates - before);
    return restMs === 0 ? setImmediate() : setTimeout(restMs);
  }
}

/** What the streams of a listener share. */
export interface StreamBounds {
  /** What each slice is read in. */
  readonly gate: Gate;
  readonly pace: StreamPace;
}

/**
 * Sends the slices, and resolves when all are sent or the client has gone.
 *
 * @param checkSender throws if the sender may no longer read.
 * @throws what the reading throws before the first slice is sent.
 */
export async function sendStream(
  { req, res }: Exchange,
  slices: AsyncGenerator<Uint8Array, undefined>,
  lease: ReadLease,
  checkSender: () => void,
  { gate, pace }: StreamBounds,
): Promise<void> {
  const requestId = nameRequest(req);
  let sentBytes = 0;
  let hasBegun = false;
  let isWhole = false;
  /** Whether nobody waits for it any more; the connection's own failure may be answered already. */
  const isOver = () => lease.isOver || (!hasBegun && res.headersSent);
  const begin = () => {
    if (!hasBegun) res.writeHead(200, streamHeaders(NDJSON, requestId));
    hasBegun = true;
  };
  try {
    for (;;) {
      const next = await lease.readIn(gate, () => slices.next());
      if (next === undefined || isOver()) break;
      checkSender();
      isWhole = next.done === true;
      if (next.done === true) break;
      const slice = next.value;
      if (slice.length > 0) {
        lease.hold(HELD_SLICES * slice.length);
        begin();
        isWhole = req.method === "HEAD";
        if (isWhole) break;
        sentBytes += slice.length;
        if (res.write(slice) === false) await lease.room(res);
      } else stayOpen(res);
      await pace.rest(lease);
      if (lease.isOver) break; // it does not wait at the gate once more
    }
    if (isWhole) {
      begin();
      res.end();
    }
  } catch (error) {
    if (!isOver()) {
      if (!hasBegun) throw error;
      publishWarning("Cannot go on with a stream of plants", error, requestId);
      res.destroy();
    }
  } finally {
    await slices.return(undefined);
  }
  if (hasBegun) publishAnswer({ status: 200, cut: !isWhole, sentBytes }, requestId, req);
  else answerNobody(req, res);
}

/**
 * Nothing moves on the connection while the server reads on through what gives nothing, which is no
 * fault of its client: the time for a connection that stands still begins anew.
 */
function stayOpen({ req: { socket } }: ServerResponse): void {
  socket.setTimeout?.(socket.timeout ?? 0); // a test's stand-in has none
}

/** Whole lines, a slice at a time. A slice may be empty: it took work all the same. */
export async function* sliceLines(
  plants: PlantService,
  { limit, after }: ListQuery,
): AsyncGenerator<Uint8Array, undefined> {
  const lines = limit === undefined ? plants.listLines?.({ after }) : undefined;
  yield* lines ?? encodeLines(plants.list({ after }), limit);
}

async function* encodeLines(
  plants: AsyncIterable<NewPlant>,
  limit: number | undefined,
): AsyncGenerator<Uint8Array> {
  let slice = "";
  let count = 0;
  for await (const plant of plants) {
    if (count++ === limit) break;
    slice += `${encodeNewPlant(plant)}\n`;
    if (slice.length < SLICE_CHARACTERS) continue;
    yield Buffer.from(slice);
    slice = "";
  }
  if (slice !== "") yield Buffer.from(slice);
}
