/**
 * The lines of plants in the canonical form: those of a store that has them, else encoded here. A list is
 * slices of whole lines, as many as are wanted, and a page joins them.
 */
import { PlantStoreError } from "../core/errors.ts";
import { encodeNewPlant, type NewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import { LIMIT_DEFAULT, type ListQuery } from "./list-query.ts";
import { okReply, type Reply } from "./reply.ts";

/** Encoding this much takes about a millisecond. */
const SLICE_CHARACTERS = 32 * 1024;
const PAGE_BYTES_MAX = 1024 * 1024;

const LINE_FEED = 0x0a;
const COMMA = 0x2c;
const CLOSE_BRACKET = 0x5d;
/** What comes before the id. */
const ID_AT = '{"id":'.length;

/** An empty slice means that work found no plant. */
export type Slices = AsyncGenerator<Uint8Array, undefined>;

/**
 * The line of one plant, without its line feed.
 *
 * @throws PlantStoreError `unknown_plant`, and as `PlantService.get`.
 */
export async function readLine(plants: PlantService, id: bigint): Promise<Uint8Array> {
  if (plants.getLine !== undefined) {
    const line = await plants.getLine(id);
    if (line !== undefined) return line;
  } else {
    const plant = await plants.get(id);
    if (plant !== undefined) return Buffer.from(encodeNewPlant(plant));
  }
  throw new PlantStoreError("unknown_plant", `id: there is no plant ${id}`);
}

/** The lines of a stream. */
export async function* sliceLines(plants: PlantService, { limit, after }: ListQuery): Slices {
  const slices = allLines(plants, { limit, after });
  if (limit === undefined) return yield* slices;
  const wanted = new LineLimit(limit);
  for await (const slice of slices) {
    yield wanted.take(slice);
    if (wanted.lines === limit) break;
  }
}

/** @param limit of plants from a store without lines: none are encoded beyond it. */
async function* allLines(plants: PlantService, { limit, after }: ListQuery): Slices {
  if (plants.listLines === undefined) yield* encodeLines(plants.list({ after }), limit);
  else yield* plants.listLines({ after });
}

async function* encodeLines(plants: AsyncIterable<NewPlant>, limit: number | undefined): Slices {
  let slice = "";
  let count = 0;
  for await (const plant of plants) {
    slice += `${encodeNewPlant(plant)}\n`;
    if (++count === limit) break;
    if (slice.length < SLICE_CHARACTERS) continue;
    yield Buffer.from(slice);
    slice = "";
  }
  if (slice !== "") yield Buffer.from(slice);
}

/** Counts lines, up to a number of them, or until they have a number of bytes. */
class LineLimit {
  lines = 0;
  bytes = 0;
  /** The newest line, with its line feed. */
  last: Uint8Array = new Uint8Array();
  /** Whether a line was left. */
  hasMore = false;
  readonly #linesMax: number;
  readonly #bytesMax: number;

  constructor(linesMax: number, bytesMax = Number.POSITIVE_INFINITY) {
    this.#linesMax = linesMax;
    this.#bytesMax = bytesMax;
  }

  /** Returns those first lines of a slice that are wanted. */
  take(slice: Uint8Array): Uint8Array {
    let start = 0;
    let end = 0;
    const bytesBefore = this.bytes;
    while (end < slice.length && this.lines < this.#linesMax && this.bytes < this.#bytesMax) {
      start = end;
      end = slice.indexOf(LINE_FEED, start) + 1;
      this.lines++;
      this.bytes = bytesBefore + end;
    }
    if (end > 0) this.last = slice.subarray(start, end);
    this.hasMore = end < slice.length;
    return slice.subarray(0, end);
  }
}

/** A JSON array of at most `limit` plants and about 1 MiB, from slices of lines. */
export class Page {
  readonly #limit: number;
  readonly #wanted: LineLimit;
  readonly #pieces: Uint8Array[] = [Buffer.from("[")];

  constructor({ limit = LIMIT_DEFAULT }: ListQuery) {
    this.#limit = limit;
    this.#wanted = new LineLimit(limit, PAGE_BYTES_MAX);
  }

  /** The lines that may begin the page; one more than it has, to know whether more follow. */
  read(plants: PlantService, { after }: ListQuery): Slices {
    return allLines(plants, { limit: this.#limit + 1, after });
  }

  get bytes(): number {
    return this.#wanted.bytes;
  }

  /** Returns true if the page was full before the end of the slice. */
  add(slice: Uint8Array): boolean {
    this.#pieces.push(this.#wanted.take(slice));
    return this.#wanted.hasMore;
  }

  reply(): Reply {
    const body = Buffer.concat(this.#wanted.lines > 0 ? this.#pieces : [Buffer.from("[ ")]);
    for (let at = body.indexOf(LINE_FEED); at >= 0; at = body.indexOf(LINE_FEED, at)) {
      body[at] = COMMA;
    }
    body[body.length - 1] = CLOSE_BRACKET;
    if (!this.#wanted.hasMore) return okReply(body);
    const { last } = this.#wanted;
    const id = String.fromCharCode(...last.subarray(ID_AT, last.indexOf(COMMA)));
    // Relative (RFC 3986 section 5.3), so that it is right through a proxy that serves another path.
    return okReply(body, { Link: `<?limit=${this.#limit}&after=${id}>; rel="next"` });
  }
}
