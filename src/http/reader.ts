/**
 * The operations that read, from an admitted request to its answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { PlantService } from "../core/services.ts";
import { answer } from "./answer.ts";
import { Pending } from "./body.ts";
import { Gate } from "./gate.ts";
import { parseListQuery } from "./list-query.ts";
import { LEASE_BYTES, ReadLease } from "./read-lease.ts";
import { getPlant, listPlants } from "./read-plants.ts";
import { nameRequest } from "./request-id.ts";
import { publishAnswer } from "./request-message.ts";
import { StreamPace } from "./stream-pace.ts";
import { streamPlants, wantsStream } from "./stream-plants.ts";

/** Gets at once whose plant is still being read, so that nobody knows how much it holds. */
const UNKNOWN_MAX = 32;
/** Pages, and slices of streams, that are read at once: each may be of plants that are long. */
const LISTS_MAX = 8;

export class Reader {
  readonly #plants: PlantService;
  readonly #pending: Pending;
  readonly #pace: StreamPace;
  readonly #gets = new Gate(UNKNOWN_MAX);
  readonly #lists = new Gate(LISTS_MAX);

  /**
   * @param bytesMax what all answers that are not sent yet may hold together.
   * @param countCreates how many creates there were so far: streams give way to them.
   */
  constructor(plants: PlantService, bytesMax: number, countCreates: () => number) {
    this.#plants = plants;
    this.#pending = new Pending(bytesMax, Number.POSITIVE_INFINITY);
    this.#pace = new StreamPace(countCreates);
  }

  /**
   * @param id of the one plant that is asked for, if it is one.
   * @param isAllowed whether the sender still may: a stream asks again and again.
   * @throws PlantStoreError, or whatever the store throws, before anything was answered.
   */
  async read(
    req: IncomingMessage,
    res: ServerResponse,
    id: bigint | undefined,
    isAllowed: () => boolean,
  ): Promise<void> {
    if (id === undefined) return this.#list(req, res, isAllowed);
    const lease = new ReadLease(this.#pending, LEASE_BYTES.plant, req, res);
    const reply = await this.#gets.pass(() => getPlant(this.#plants, id, req, lease));
    answer(req, res, reply);
  }

  async #list(req: IncomingMessage, res: ServerResponse, isAllowed: () => boolean): Promise<void> {
    if (!res.headersSent) res.appendHeader("Vary", "Accept");
    const query = parseListQuery(req.url ?? "");
    const lease = new ReadLease(this.#pending, LEASE_BYTES.list, req, res);
    if (!wantsStream(req)) {
      const page = await this.#lists.pass(() => listPlants(this.#plants, query, lease));
      return void answer(req, res, page);
    }
    const { limit = Number.POSITIVE_INFINITY, after } = query;
    const requestId = nameRequest(req);
    const stream = {
      plants: this.#plants.list({ after }),
      limit,
      lease,
      pace: this.#pace,
      gate: this.#lists,
      isAllowed,
      requestId,
      sentBytes: 0,
    };
    const end = await streamPlants(res, stream);
    if (end === "unsent") return;
    publishAnswer({ status: 200, cut: end === "cut", sentBytes: stream.sentBytes }, requestId, req);
  }
}
