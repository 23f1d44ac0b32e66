/**
 * The operations that read: one plant, a page of plants, or a stream of all (http/stream).
 *
 * They are additions to the interface, for tokens with the scope `read`. Each operation passes on the
 * lines of the store, and neither parses nor encodes them. An answer to HEAD has no body, but the
 * line is read for it, too.
 */

import type { IncomingMessage } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import { INT64_RANGE, parseCanonicalInt64 } from "../core/json.ts";
import type { PlantService, VerifiedToken } from "../core/services.ts";
import { quote } from "../core/text.ts";
import { answer, type Exchange, okReply, publishCut, type Reply } from "./answer.ts";
import { Budget, Lease, overloaded, ReadLease } from "./body.ts";
import type { Authenticator } from "./head.ts";
import {
  type CreateCounts,
  FirstLines,
  ListPace,
  NDJSON,
  sendStream,
  sliceLines,
} from "./stream.ts";

/**
 * A plant is read before its length is known, so the plants that are read at once are limited. Our store
 * reads short ones the faster the more are asked for, and by itself few long ones at once.
 */
const PLANTS_READING_MAX = 256;

/** The least that a read holds: its request, and a plant of common size. */
const PLANT_BYTES = 4 * 1024;
/** The line in the store while it is read, and on its way to the socket. */
const LINE_COPIES = 2;
/** A block that the store reads, and a slice that the socket has not taken yet. */
const LIST_BYTES = 256 * 1024;
const PAGE_BYTES_MAX = 1024 * 1024;
/** How a line begins. */
const ID_AFTER = '{"id":';

export const LIMIT_DEFAULT = 100;
export const LIMIT_MAX = 1000;

export class Reads {
  readonly #plants: PlantService;
  readonly #authenticator: Authenticator;
  readonly #budget: Budget;
  readonly #plantGate = new Gate(PLANTS_READING_MAX);
  readonly #pace: ListPace;

  /** @param creates to which lists give way. */
  constructor(plants: PlantService, authenticator: Authenticator, creates: CreateCounts) {
    this.#plants = plants;
    this.#authenticator = authenticator;
    this.#budget = new Budget();
    this.#pace = new ListPace(creates);
  }

  /** @throws PlantStoreError, or what the store throws; nothing is answered then. */
  async get(exchange: Exchange, sender: VerifiedToken, id: bigint): Promise<void> {
    const { req, res } = exchange;
    const lease = new ReadLease(new Lease(this.#budget, sender.name), PLANT_BYTES, req, res);
    try {
      const reply = await lease.readIn(this.#plantGate, async () => {
        const line = await this.#plants.getLine(id);
        if (line === undefined) {
          throw new PlantStoreError("unknown_plant", `id: there is no plant ${id}`);
        }
        lease.hold(LINE_COPIES * line.length);
        return okReply(line);
      });
      await this.#answer(exchange, sender, reply);
    } finally {
      // Not before the answer: it has nearly always left by now, and listeners cost a tenth of a read.
      lease.endWhenSent();
    }
  }

  /** @throws as `get`. */
  async list(exchange: Exchange, sender: VerifiedToken): Promise<void> {
    const { req, res } = exchange;
    const query = parseListQuery(req.url ?? "");
    const lease = new ReadLease(new Lease(this.#budget, sender.name), LIST_BYTES, req, res);
    lease.endWhenSent();
    if (wantsStream(req)) {
      const wanted = query.limit === undefined ? undefined : new FirstLines(query.limit);
      const slices = sliceLines(this.#plants, query.after, wanted);
      const checkSender = () => this.#authenticator.requireCurrent(sender);
      await sendStream(exchange, slices, lease, checkSender, this.#pace);
    } else await this.#answer(exchange, sender, await this.#readPage(query, lease));
  }

  /** @throws PlantStoreError `overloaded`, and as `PlantService.listLines`. */
  async #readPage(
    { limit = LIMIT_DEFAULT, after }: ListQuery,
    lease: ReadLease,
  ): Promise<Reply | undefined> {
    const wanted = new FirstLines(limit, PAGE_BYTES_MAX);
    const slices = sliceLines(this.#plants, after, wanted);
    const lines: Uint8Array[] = [];
    try {
      for (;;) {
        const next = await this.#pace.read(slices, lease);
        if (next === undefined) return undefined;
        if (next.value !== undefined) lines.push(next.value);
        lease.hold(wanted.bytes);
        if (next.done === true || wanted.hasMore) return pageReply(lines, wanted);
      }
    } catch (error) {
      throw error instanceof RangeError ? overloaded() : error; // no memory for a long page
    } finally {
      await slices.return(undefined);
    }
  }

  async #answer(
    exchange: Exchange,
    sender: VerifiedToken,
    reply: Reply | undefined,
  ): Promise<void> {
    if (reply === undefined) publishCut(exchange.req, exchange.res);
    else {
      await this.#authenticator.requireCurrent(sender); // the token may be revoked by now
      answer(exchange, reply);
    }
  }
}

function pageReply(lines: readonly Uint8Array[], { countMax, hasMore }: FirstLines): Reply {
  const text = Buffer.concat(lines).toString("latin1").trimEnd().replaceAll("\n", ",");
  const body = Buffer.from(`[${text}]`, "latin1");
  if (!hasMore) return okReply(body);
  const last = text.lastIndexOf(ID_AFTER) + ID_AFTER.length; // no string in JSON holds it
  const id = text.slice(last, text.indexOf(",", last));
  if (!/^-?\d+$/.test(id)) throw new Error("listLines: expected lines that begin with the id");
  // Relative (RFC 3986 section 5.3), so that it is right through a proxy that serves another path.
  return okReply(body, { Link: `<?limit=${countMax}&after=${id}>; rel="next"` });
}

/**
 * What a list asks for.
 *
 * The cursor is an id, because ids never change: it stays good after a repair or a restore, which
 * move the bytes of the log, works with any store, and a client can take it from the last plant it
 * has.
 */
interface ListQuery {
  readonly limit: number | undefined;
  readonly after: bigint | undefined;
}

/** @throws PlantStoreError `invalid_query`; the message names every fault. */
function parseListQuery(target: string): ListQuery {
  const parameters = new URLSearchParams(/\?(.*)/s.exec(target)?.[1]);
  const faults: string[] = [];
  const read = <T>(name: string, parse: (text: string) => T | undefined, expected: string) => {
    const texts = parameters.getAll(name);
    if (texts.length === 0) return undefined;
    const text = texts.join(); // several are no number
    const value = parse(text);
    if (value === undefined) faults.push(`${name}: expected ${expected}, got ${quote(text)}`);
    return value;
  };
  const others = [...parameters.keys()].filter((name) => name !== "limit" && name !== "after");
  if (others.length > 0)
    faults.push(`query: expected limit and after, got ${quote(others.join())}`);
  const limit = read("limit", parseLimit, `one whole number from 1 to ${LIMIT_MAX}`);
  const after = read("after", parseCanonicalInt64, `one id ${INT64_RANGE}`);
  if (faults.length > 0) throw new PlantStoreError("invalid_query", faults.join("; "));
  return { limit, after };
}

function parseLimit(text: string): number | undefined {
  const limit = Number(text);
  return /^[1-9][0-9]{0,3}$/.test(text) && limit <= LIMIT_MAX ? limit : undefined;
}

/** Whether the client asks for a stream, and could notice that it was cut. */
function wantsStream({ headers: { accept = "" }, httpVersion }: IncomingMessage): boolean {
  return httpVersion !== "1.0" && accept.toLowerCase().includes(NDJSON);
}
