/**
 * All plants as a stream of JSON lines (`application/x-ndjson`).
 *
 * Holds a slice at a time: the next is read when the socket has taken the one
 * before, so a client that does not read costs its lease and no more, and one
 * that leaves ends the reading. A stream that cannot go on is cut without its
 * last chunk, so that nobody takes the part for the whole.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { publishWarning } from "../core/channels.ts";
import type { Gate } from "../core/gate.ts";
import { encodeNewPlant, type NewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import { prefers } from "./accept.ts";
import type { ListQuery } from "./list-query.ts";
import type { ReadLease } from "./read-lease.ts";
import { streamHeaders } from "./reply.ts";
import type { StreamPace } from "./stream-pace.ts";

const NDJSON = "application/x-ndjson";

/** About a millisecond's work, where plants have to be encoded. */
const SLICE_CHARACTERS = 32 * 1024;

/** What a stream of long plants holds while one waits to be sent: its block, itself, its text, its bytes. */
const HELD_SLICES = 4;

/** Whether the client would rather have a stream than a page, and could tell that it was cut. */
export function wantsStream({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion !== "1.0" && prefers(headers.accept, NDJSON, "application/json");
}

export interface PlantStream {
  /** JSON lines; a slice that is empty took work all the same. */
  readonly slices: AsyncGenerator<Uint8Array>;
  readonly lease: ReadLease;
  readonly pace: StreamPace;
  /** What each slice is read behind. */
  readonly gate: Gate;
  /** Throws when the reader may not go on. */
  readonly requireCurrent: () => void;
  /** As the answer tells it. */
  readonly requestId: string;
  /** So far; counted here. */
  sentBytes: number;
}

/**
 * What became of a stream: all of it was sent, or it broke off before its end,
 * because its client left or it could not go on, or another answer was sent in
 * its place.
 */
export type StreamEnd = "whole" | "cut" | "unsent";

/**
 * Sends the plants, and resolves when all are sent or the client has gone.
 *
 * @throws whatever the reading throws before the first slice is sent.
 */
export async function streamPlants(res: ServerResponse, stream: PlantStream): Promise<StreamEnd> {
  const { slices, lease, pace, gate, requestId } = stream;
  let hasBegun = false;
  /** How it ended without us; the connection's own failure may be told already. */
  const endBefore = (): StreamEnd | undefined => {
    if (!hasBegun && res.headersSent) return "unsent";
    return lease.isOver ? "cut" : undefined;
  };
  const begin = () => {
    hasBegun = true;
    res.writeHead(200, streamHeaders(NDJSON, requestId));
  };
  try {
    for await (const slice of behind(gate, lease, slices)) {
      if (endBefore() !== undefined) break;
      stream.requireCurrent();
      if (slice.length > 0) {
        lease.hold(HELD_SLICES * slice.length);
        if (!hasBegun) begin();
        if (res.req.method === "HEAD") break;
        stream.sentBytes += slice.length;
        if (res.write(slice) === false) await lease.room(res);
      } else stayOpen(res);
      await pace.turn(lease);
      if (lease.isOver) break; // not behind the gate once more
    }
    const end = endBefore();
    if (end !== undefined) return end;
    stream.requireCurrent();
    if (!hasBegun) begin();
    res.end();
    return "whole";
  } catch (error) {
    const end = endBefore();
    if (end !== undefined) return end; // whatever the error is, it concerns nobody
    if (!hasBegun) throw error;
    publishWarning("Cannot go on with a stream of plants", error, requestId);
    res.destroy();
    return "cut";
  }
}

/**
 * Nothing moves on the connection while the server reads on, which is no fault of its client. One
 * that does not read either is cut later for it: behind what gives nothing.
 */
function stayOpen({ req: { socket } }: ServerResponse): void {
  socket.setTimeout?.(socket.timeout ?? 0); // of a test's stand-in there is none
}

/** The same, each made behind the gate, for whoever is still there: nobody knows how much it holds. */
async function* behind(
  gate: Gate,
  lease: ReadLease,
  slices: AsyncGenerator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    for (;;) {
      const next = () => (lease.isOver ? slices.return(undefined) : slices.next());
      const { value, done } = await gate.pass(next);
      if (done === true) return;
      yield value;
    }
  } finally {
    await slices.return(undefined);
  }
}

/** Whole lines, a slice at a time; none where there are none. */
export async function* sliceLines(
  plants: PlantService,
  { limit, after }: ListQuery,
): AsyncGenerator<Uint8Array> {
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
