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
import type { ReadLease } from "./read-lease.ts";
import { streamHeaders } from "./reply.ts";
import { nameRequest } from "./request-id.ts";
import type { StreamPace } from "./stream-pace.ts";

const NDJSON = "application/x-ndjson";

/** About a millisecond's work. */
const SLICE_CHARACTERS = 32 * 1024;

/** Whether the client would rather have a stream than a page. */
export function wantsStream({ headers }: IncomingMessage): boolean {
  return prefers(headers.accept, NDJSON, "application/json");
}

export interface PlantStream {
  readonly plants: AsyncIterable<NewPlant>;
  readonly limit: number;
  readonly lease: ReadLease;
  readonly pace: StreamPace;
}

/** What became of a stream that was begun. */
export interface SentStream {
  /** As the answer tells it. */
  readonly requestId: string;
  /** It broke off before its end. */
  readonly isCut: boolean;
}

/**
 * Sends the plants, and resolves when all are sent or the client has gone.
 *
 * @returns `undefined` where no answer was begun.
 * @throws whatever the reading throws before the first slice is sent.
 */
export async function streamPlants(
  res: ServerResponse,
  stream: PlantStream,
): Promise<SentStream | undefined> {
  const { lease, pace } = stream;
  let requestId: string | undefined;
  try {
    for await (const slice of sliceLines(stream)) {
      if (lease.isOver) return requestId === undefined ? undefined : { requestId, isCut: true };
      lease.hold(Buffer.byteLength(slice));
      if (requestId === undefined) {
        if (res.headersSent) return undefined; // the connection's own failure was told first
        requestId = nameRequest(res.req);
        res.writeHead(200, streamHeaders(NDJSON, requestId));
        if (res.req.method === "HEAD") break;
      }
      if (!res.write(slice)) await lease.room(res);
      await pace.turn(lease);
    }
    res.end();
    return requestId === undefined ? undefined : { requestId, isCut: lease.isOver };
  } catch (error) {
    if (requestId === undefined) throw error;
    publishWarning("Cannot go on with a stream of plants", error, requestId);
    res.destroy();
    return { requestId, isCut: true };
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
