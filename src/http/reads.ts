/**
 * The operations that read: one plant, a page of plants, or a stream of all (http/plant-stream).
 *
 * They are additions to the interface, for tokens with the scope `read`. Each operation passes on lines
 * of the store, and neither parses nor encodes them. An answer to HEAD and a 304 have no body, but the
 * line is read for them, too. The tag of a plant is a hash of the bytes that its line has now.
 */
import { hash } from "node:crypto";
import { Gate } from "../core/gate.ts";
import type { PlantService, VerifiedToken } from "../core/services.ts";
import { answer, type Exchange, okReply, publishCut, type Reply } from "./answer.ts";
import { Budget, Lease, overloaded, ReadLease } from "./body.ts";
import type { Authenticator } from "./head.ts";
import { FirstLines, readLine, sliceLines } from "./lines.ts";
import { LIMIT_DEFAULT, type ListQuery, parseListQuery, wantsStream } from "./list-query.ts";
import { type CreateCounts, ListPace, sendStream } from "./plant-stream.ts";

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

export class Reads {
  readonly #plants: PlantService;
  readonly #authenticator: Authenticator;
  readonly #budget: Budget;
  readonly #plantGate = new Gate(PLANTS_READING_MAX);
  readonly #pace: ListPace;

  /**
   * @param bytesMax what answers hold together; by default by the memory there is.
   * @param creates to which lists give way.
   */
  constructor(
    plants: PlantService,
    authenticator: Authenticator,
    bytesMax: number | undefined,
    creates: CreateCounts,
  ) {
    this.#plants = plants;
    this.#authenticator = authenticator;
    this.#budget = new Budget(bytesMax);
    this.#pace = new ListPace(creates);
  }

  /** @throws PlantStoreError, or what the store throws; nothing is answered then. */
  async get(exchange: Exchange, sender: VerifiedToken, id: bigint): Promise<void> {
    const { req, res } = exchange;
    const lease = new ReadLease(new Lease(this.#budget, sender.name), PLANT_BYTES, req, res);
    const ifNoneMatch = req.headers["if-none-match"];
    try {
      const reply = await lease.readIn(this.#plantGate, async () => {
        const line = await readLine(this.#plants, id);
        lease.hold(LINE_COPIES * line.length);
        return plantReply(line, ifNoneMatch);
      });
      await this.#answer(exchange, sender, reply);
    } finally {
      lease.endWhenSent(); // now, because listeners cost a tenth of a read
    }
  }

  /** @throws as `get`. */
  async list(exchange: Exchange, sender: VerifiedToken): Promise<void> {
    const { req, res } = exchange;
    res.appendHeader("Vary", "Accept");
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

  /** @throws PlantStoreError `overloaded`, and as `PlantService.list`. */
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

/** A plant never changes, but its reader asks again, so that a revoked token stops that too. */
const PLANT_HEADERS = { "Cache-Control": "private, no-cache" };

/** @internal */
export function plantReply(body: string | Uint8Array, ifNoneMatch = ""): Reply {
  const tag = `"${hash("sha256", body, "base64url").slice(0, 22)}"`;
  // By the weak comparison of RFC 9110 section 13.1.2, which ignores `W/`.
  const isMatch = ifNoneMatch === "*" || ifNoneMatch.includes(tag);
  return { status: isMatch ? 304 : 200, headers: PLANT_HEADERS, body: isMatch ? "" : body, tag };
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
