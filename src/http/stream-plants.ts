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
import { encodeNewPlant, type NewPlant } from "../core/plant.ts";
import { prefers } from "./accept.ts";
import type { Gate } from "./gate.ts";
import type { ReadLease } from "./read-lease.ts";
import { streamHeaders } from "./reply.ts";
import type { StreamPace } from "./stream-pace.ts";

const NDJSON = "application/x-ndjson";

/** About a millisecond's work. */
const SLICE_CHARACTERS = 32 * 1024;

/** What a stream of long plants holds while one waits to be sent: that, and what is read ahead. */
const HELD_SLICES = 4;

/** Whether the client would rather have a stream than a page, and could tell that it was cut. */
export function wantsStream({ headers, httpVersion }: IncomingMessage): boolean {
  return httpVersion !== "1.0" && prefers(headers.accept, NDJSON, "application/json");
}

export interface PlantStream {
  readonly plants: AsyncIterable<NewPlant>;
  readonly limit: number;
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
  const { lease, pace, gate, requestId } = stream;
  let hasBegun = false;
  try {
    for await (const slice of behind(gate, lease, sliceLines(stream))) {
      // The connection's own failure was told first.
      if (!hasBegun && res.headersSent) return "unsent";
      if (lease.isOver) return "cut";
      stream.requireCurrent();
      const bytes = Buffer.byteLength(slice);
      lease.hold(HELD_SLICES * bytes);
      if (!hasBegun) {
        hasBegun = true;
        res.writeHead(200, streamHeaders(NDJSON, requestId));
        if (res.req.method === "HEAD") break;
      }
      stream.sentBytes += bytes;
      if (!res.write(slice)) await lease.room(res);
      await pace.turn(lease);
      if (lease.isOver) return "cut";
    }
    if (!hasBegun && res.headersSent) return "unsent";
    if (lease.isOver) return "cut";
    res.end();
    return "whole";
  } catch (error) {
    if (!hasBegun && res.headersSent) return "unsent";
    if (lease.isOver) return "cut"; // whatever it is, it concerns nobody
    if (!hasBegun) throw error;
    publishWarning("Cannot go on with a stream of plants", error, requestId);
    res.destroy();
    return "cut";
  }
}

/** The same, each made behind the gate, for whoever is still there: nobody knows how much it holds. */
async function* behind(
  gate: Gate,
  lease: ReadLease,
  slices: AsyncGenerator<string>,
): AsyncGenerator<string> {
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

/** Whole lines, a slice at a time; one that is empty where there are none. */
async function* sliceLines({ plants, limit }: PlantStream): AsyncGenerator<string> {
  let slice = "";
  let count = 0;
  for await (const plant of plants) {
    if (count++ === limit) break;
    slice += `${encodeNewPlant(plant)}\n`;
    if (slice.length < SLICE_CHARACTERS) continue;
    yield slice;
    slice = "";
  }
  yield slice;
}
