/**
 * The operations that read: one plant, a page of plants, or a stream of all (http/plant-stream).
 *
 * They are additions to the interface, for tokens with the scope `read`. A page is a JSON array of
 * at most `limit` plants and about 1 MiB. Ids are written digit for digit.
 */
import { hash } from "node:crypto";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import type { Numbers } from "../core/options.ts";
import { encodeNewPlant } from "../core/plant.ts";
import type { PlantService, VerifiedToken } from "../core/services.ts";
import { answer, type Exchange, publishCut } from "./answer.ts";
import type { Authenticator } from "./bearer.ts";
import { Budget, Lease, ReadLease } from "./budget.ts";
import { LIMIT_DEFAULT, type ListQuery, parseListQuery, wantsStream } from "./list-query.ts";
import { StreamPace, sendStream, sliceLines } from "./plant-stream.ts";
import { okReply, type Reply } from "./reply.ts";

/**
 * A plant is read before its length is known, so the plants that are read at once are limited. Our store
 * reads short ones the faster the more are asked for, and by itself few long ones at once.
 */
const PLANTS_READING_MAX = 256;
/** Pages, and slices of streams. */
const LISTS_READING_MAX = 8;

/** The least that a read holds: its request, and a plant of common size. */
const PLANT_BYTES = 4 * 1024;
/** A block that the store reads, and a slice that the socket has not taken yet. */
const LIST_BYTES = 256 * 1024;
const PAGE_BYTES_MAX = 1024 * 1024;

export class Reads {
  readonly #plants: PlantService;
  readonly #authenticator: Authenticator;
  readonly #budget: Budget;
  readonly #plantGate = new Gate(PLANTS_READING_MAX);
  readonly #listGate = new Gate(LISTS_READING_MAX);
  readonly #pace: StreamPace;

  /**
   * @param creates to which streams give way.
   * @throws TypeError or RangeError for a number out of its range.
   */
  constructor(
    plants: PlantService,
    authenticator: Authenticator,
    options: Numbers,
    creates: { readonly count: number },
  ) {
    this.#plants = plants;
    this.#authenticator = authenticator;
    this.#budget = Budget.of(options, "readBytesMax");
    this.#pace = new StreamPace(creates);
  }

  /** @throws PlantStoreError, or what the store throws; nothing is answered then. */
  async get(exchange: Exchange, sender: VerifiedToken, id: bigint): Promise<void> {
    const { req, res } = exchange;
    const lease = new ReadLease(new Lease(this.#budget, sender.name), PLANT_BYTES, req, res);
    const ifNoneMatch = req.headers["if-none-match"];
    try {
      const reply = await lease.readIn(this.#plantGate, async () => {
        const plant = await this.#plants.get(id);
        if (plant === undefined) {
          throw new PlantStoreError("unknown_plant", `id: there is no plant ${id}`);
        }
        const body = encodeNewPlant(plant);
        lease.hold(Buffer.byteLength(body));
        return plantReply(body, ifNoneMatch);
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
      const slices = sliceLines(this.#plants, query);
      const checkSender = () => this.#authenticator.requireCurrent(sender);
      const bounds = { gate: this.#listGate, pace: this.#pace };
      await sendStream(exchange, slices, lease, checkSender, bounds);
    } else {
      const read = () => listPage(this.#plants, query, lease);
      await this.#answer(exchange, sender, await lease.readIn(this.#listGate, read));
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
export function plantReply(body: string, ifNoneMatch = ""): Reply {
  const tag = `"${hash("sha256", body, "base64url").slice(0, 22)}"`;
  // By the weak comparison of RFC 9110 section 13.1.2, which ignores `W/`.
  const isMatch = ifNoneMatch === "*" || ifNoneMatch.match(/"[^"]*"/g)?.includes(tag) === true;
  return { status: isMatch ? 304 : 200, headers: PLANT_HEADERS, body: isMatch ? "" : body, tag };
}

/** @throws PlantStoreError `overloaded`, and from `PlantService.list`. */
async function listPage(
  plants: PlantService,
  { limit = LIMIT_DEFAULT, after }: ListQuery,
  lease: ReadLease,
): Promise<Reply> {
  const page: string[] = [];
  let last = after;
  let bytes = 0;
  let hasMore = false;
  for await (const plant of plants.list({ after })) {
    hasMore = page.length >= limit || bytes >= PAGE_BYTES_MAX;
    if (hasMore) break;
    const text = encodeNewPlant(plant);
    bytes += Buffer.byteLength(text);
    lease.hold(bytes);
    page.push(text);
    last = plant.id;
  }
  // Relative (RFC 3986 section 5.3), so that it is right through a proxy that serves another path.
  const next = `<?limit=${limit}&after=${last}>; rel="next"`;
  return okReply(`[${page.join()}]`, hasMore ? { Link: next } : {});
}
