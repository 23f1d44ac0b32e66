/**
 * The operations that read, from an admitted request to its answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { PlantService } from "../core/services.ts";
import { answer } from "./answer.ts";
import { Pending } from "./body.ts";
import { parseListQuery } from "./list-query.ts";
import { ReadLease } from "./read-lease.ts";
import { getPlant, listPlants } from "./read-plants.ts";
import { okReply } from "./reply.ts";
import { publishAnswer } from "./request-message.ts";
import { streamPlants, wantsStream } from "./stream-plants.ts";

export class Reader {
  readonly #plants: PlantService;
  readonly #pending: Pending;
  readonly #countCreates: () => number;

  /**
   * @param bytesMax what all answers that are not sent yet may hold together.
   * @param countCreates how many creates there were so far: streams give way to them.
   */
  constructor(plants: PlantService, bytesMax: number, countCreates: () => number) {
    this.#plants = plants;
    this.#pending = new Pending(bytesMax, Number.POSITIVE_INFINITY);
    this.#countCreates = countCreates;
  }

  /**
   * @param id of the one plant that is asked for, if it is one.
   * @throws PlantStoreError, or whatever the store throws, before anything was answered.
   */
  async read(req: IncomingMessage, res: ServerResponse, id: bigint | undefined): Promise<void> {
    const lease = new ReadLease(this.#pending, req, res);
    if (id !== undefined) answer(req, res, await getPlant(this.#plants, id, req, lease));
    else if (wantsStream(req)) await this.#stream(req, res, lease);
    else answer(req, res, await listPlants(this.#plants, req, lease));
  }

  async #stream(req: IncomingMessage, res: ServerResponse, lease: ReadLease): Promise<void> {
    const { limit = Number.POSITIVE_INFINITY, after } = parseListQuery(req.url ?? "");
    const plants = this.#plants.list({ after });
    const countCreates = this.#countCreates;
    const requestId = await streamPlants(res, { plants, limit, lease, countCreates });
    if (requestId !== undefined) publishAnswer(okReply(""), requestId, req);
  }
}
