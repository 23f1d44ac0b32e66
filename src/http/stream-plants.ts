/**
 * All plants as a stream of JSON lines (`application/x-ndjson`).
 *
 * Holds a slice at a time: the next is read when the socket has taken the one
 * before, so a client that does not read costs no memory, and one that leaves
 * ends the reading. Creates come first: while there are any the stream rests
 * between slices. A stream that cannot go on is cut without its last
 * chunk, so that nobody takes the part for the whole.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setImmediate, setTimeout } from "node:timers/promises";
import { publishWarning } from "../core/channels.ts";
import { encodeNewPlant, type NewPlant } from "../core/plant.ts";
import { prefers } from "./accept.ts";
import type { ReadLease } from "./read-lease.ts";
import { streamHeaders } from "./reply.ts";
import { nameRequest } from "./request-id.ts";

const NDJSON = "application/x-ndjson";

/** About a millisecond's work. */
const SLICE_CHARACTERS = 32 * 1024;
/** Leaves creates more than nine tenths of the event loop. */
const REST_MS = 16;

/** Whether the client would rather have a stream than a page. */
export function wantsStream({ headers }: IncomingMessage): boolean {
  return prefers(headers.accept, NDJSON, "application/json");
}

export interface PlantStream {
  readonly plants: AsyncIterable<NewPlant>;
  readonly limit: number;
  readonly lease: ReadLease;
  /** How many creates there were so far. */
  readonly countCreates: () => number;
}

/**
 * Sends the plants, and resolves when all are sent or the client has gone.
 *
 * @returns the request's id, as the answer tells it; `undefined` where none was begun.
 * @throws whatever the reading throws before the first slice is sent.
 */
export async function streamPlants(
  res: ServerResponse,
  stream: PlantStream,
): Promise<string | undefined> {
  const { lease, countCreates } = stream;
  let creates = countCreates();
  let requestId: string | undefined;
  try {
    for await (const slice of sliceLines(stream)) {
      if (lease.isOver) return requestId;
      if (requestId === undefined) {
        if (res.headersSent) return undefined; // the connection's own failure was told first
        requestId = nameRequest(res.req);
        res.writeHead(200, streamHeaders(NDJSON, requestId));
        if (res.req.method === "HEAD") break;
      }
      if (!res.write(slice)) await lease.room(res);
      const before = creates;
      creates = countCreates();
      // Asking whether any is under way would not do: a batch is answered all at once.
      await (creates === before ? setImmediate() : setTimeout(REST_MS));
    }
    res.end();
  } catch (error) {
    if (requestId === undefined) throw error;
    publishWarning("Cannot go on with a stream of plants", error);
    res.destroy();
  }
  return requestId;
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
