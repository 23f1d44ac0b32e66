/**
 * The operations that read, from an admitted request to its answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { PlantService } from "../core/services.ts";
import { answer } from "./answer.ts";
import { Pending } from "./body.ts";
import { type ListQuery, parseListQuery } from "./list-query.ts";
import { LEASE_BYTES, ReadLease } from "./read-lease.ts";
import { getPlant, listPlants } from "./read-plants.ts";
import { publishAnswer } from "./request-message.ts";
import { StreamPace } from "./stream-pace.ts";
import { streamPlants, wantsStream } from "./stream-plants.ts";

export class Reader {
  readonly #plants: PlantService;
  readonly #pending: Pending;
  readonly #pace: StreamPace;

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
   * @throws PlantStoreError, or whatever the store throws, before anything was answered.
   */
  async read(req: IncomingMessage, res: ServerResponse, id: bigint | undefined): Promise<void> {
    if (id === undefined) return this.#list(req, res);
    const lease = new ReadLease(this.#pending, LEASE_BYTES.plant, req, res);
    answer(req, res, await getPlant(this.#plants, id, req, lease));
  }

  async #list(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (!res.headersSent) res.appendHeader("Vary", "Accept");
    const query = parseListQuery(req.url ?? "");
    const lease = new ReadLease(this.#pending, LEASE_BYTES.list, req, res);
    if (wantsStream(req)) await this.#stream(req, res, query, lease);
    else answer(req, res, await listPlants(this.#plants, query, lease));
  }

  async #stream(
    req: IncomingMessage,
    res: ServerResponse,
    { limit = Number.POSITIVE_INFINITY, after }: ListQuery,
    lease: ReadLease,
  ): Promise<void> {
    const plants = this.#plants.list({ after });
    const sent = await streamPlants(res, { plants, limit, lease, pace: this.#pace });
    if (sent !== undefined) publishAnswer({ status: 200, cut: sent.isCut }, sent.requestId, req);
  }
}
