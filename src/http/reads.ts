/**
 * The operations that read: one plant, a page of plants, or a stream of all (http/plant-stream).
 *
 * They are an addition to the interface, for tokens with the scope `read`. A page is a JSON array, no
 * longer than its limit and about 1 MiB; a `Link` is sent only if more plants follow. Ids are written
 * digit for digit.
 */
import { createHash } from "node:crypto";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import { encodeNewPlant } from "../core/plant.ts";
import type { PlantService, VerifiedToken } from "../core/services.ts";
import { answer, answerNobody, type Exchange } from "./answer.ts";
import type { Authenticator } from "./bearer.ts";
import { Budget, ReadLease } from "./budget.ts";
import { LIMIT_DEFAULT, type ListQuery, parseListQuery, wantsStream } from "./list-query.ts";
import { type StreamBounds, StreamPace, sendStream, sliceLines } from "./plant-stream.ts";
import { emptyReply, okReply, type Reply } from "./reply.ts";
import { trimSpace } from "./request-head.ts";

/** So many are read at once, because how much each holds is known only then. */
const PLANTS_READING_MAX = 32;
/** Pages, and slices of streams. */
const LISTS_READING_MAX = 8;

/** What a read holds at least: a request that waits, and a plant like most. */
const PLANT_BYTES = 4 * 1024;
/** What a store reads at once, and a slice that a socket has not taken yet. */
const LIST_BYTES = 256 * 1024;
const PAGE_BYTES_MAX = 1024 * 1024;

/**
 * A plant never changes, so its tag is good for ever; but its reader asks again each time, so that a
 * revoked token ends that too.
 */
const KEPT_BY_ITS_READER = "private, no-cache";

export class Reads {
  readonly #plants: PlantService;
  readonly #authenticator: Authenticator;
  readonly #budget: Budget;
  readonly #plantGate = new Gate(PLANTS_READING_MAX);
  readonly #listGate = new Gate(LISTS_READING_MAX);
  readonly #streams: StreamBounds;

  /**
   * @param bytesMax what all answers that are not sent yet may hold together.
   * @param countCreates how many creates there were so far: streams give way to them.
   */
  constructor(
    plants: PlantService,
    authenticator: Authenticator,
    bytesMax: number,
    countCreates: () => number,
  ) {
    this.#plants = plants;
    this.#authenticator = authenticator;
    this.#budget = new Budget(bytesMax);
    this.#streams = { gate: this.#listGate, pace: new StreamPace(countCreates) };
  }

  /** @throws PlantStoreError, or what the store throws, before anything was answered. */
  async get(exchange: Exchange, sender: VerifiedToken, id: bigint): Promise<void> {
    const { req, res } = exchange;
    const lease = new ReadLease(this.#budget, PLANT_BYTES, req, res);
    const ifNoneMatch = req.headers["if-none-match"];
    const reply = await lease.readIn(this.#plantGate, () =>
      getPlant(this.#plants, id, ifNoneMatch, lease),
    );
    this.#answer(exchange, sender, reply);
  }

  /** @throws as `get`. */
  async list(exchange: Exchange, sender: VerifiedToken): Promise<void> {
    const { req, res } = exchange;
    if (!res.headersSent) res.appendHeader("Vary", "Accept");
    const query = parseListQuery(req.url ?? "");
    const lease = new ReadLease(this.#budget, LIST_BYTES, req, res);
    if (wantsStream(req)) {
      const slices = sliceLines(this.#plants, query);
      const checkSender = () => this.#authenticator.requireCurrent(sender);
      await sendStream(exchange, slices, lease, checkSender, this.#streams);
    } else {
      const read = () => listPage(this.#plants, query, lease);
      this.#answer(exchange, sender, await lease.readIn(this.#listGate, read));
    }
  }

  #answer(exchange: Exchange, sender: VerifiedToken, reply: Reply | undefined): void {
    if (reply === undefined) {
      answerNobody(exchange.req, exchange.res);
      return;
    }
    this.#authenticator.requireCurrent(sender); // it may have taken long
    answer(exchange, reply);
  }
}

/** @throws PlantStoreError `unknown_plant`, `overloaded`, and from `PlantService.get`. @internal */
export async function getPlant(
  plants: PlantService,
  id: bigint,
  ifNoneMatch: string | undefined,
  lease: Pick<ReadLease, "hold">,
): Promise<Reply> {
  const plant = await plants.get(id);
  if (plant === undefined) {
    throw new PlantStoreError("unknown_plant", `id: there is no plant ${id}`);
  }
  const body = encodeNewPlant(plant);
  lease.hold(Buffer.byteLength(body));
  const headers = { ETag: entityTag(body), "Cache-Control": KEPT_BY_ITS_READER };
  return isMatch(ifNoneMatch, headers.ETag) ? emptyReply(304, headers) : okReply(body, headers);
}

/** Strong: the same bytes, the same tag. */
function entityTag(body: string): string {
  return `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
}

/** RFC 9110 section 13.1.2: the weak comparison, in which `W/` does not count. */
function isMatch(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (trimSpace(ifNoneMatch) === "*") return true;
  for (const [listed] of ifNoneMatch.matchAll(/"[^"]*"/g)) if (listed === tag) return true;
  return false;
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
  // Relative to the page itself (RFC 3986 section 5.3), so that it is right through a proxy that
  // serves another path.
  const next = `<?limit=${limit}&after=${last}>; rel="next"`;
  return okReply(`[${page.join()}]`, hasMore ? { Link: next } : {});
}
