/**
 * The operations that read, from an admitted request to its answer.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Gate } from "../core/gate.ts";
import type { PlantService } from "../core/services.ts";
import { answer, answerNobody, type Lingering } from "./answer.ts";
import { Pending } from "./body.ts";
import { parseListQuery } from "./list-query.ts";
import { LEASE_BYTES, ReadLease } from "./read-lease.ts";
import { getPlant, listPlants } from "./read-plants.ts";
import type { Reply } from "./reply.ts";
import { nameRequest, publishAnswer } from "./request-message.ts";
import { StreamPace } from "./stream-pace.ts";
import { sliceLines, streamPlants, wantsStream } from "./stream-plants.ts";

/** Gets at once whose plant is still being read, so that nobody knows how much it holds. */
const UNKNOWN_MAX = 32;
/** Pages, and slices of streams, that are read at once: each may be of plants that are long. */
const LISTS_MAX = 8;

/** A request that may be carried out. */
export interface Admitted {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  /** Throws when its sender may no longer: asked before anything of the store is sent. */
  readonly requireCurrent: () => void;
  readonly lingering: Lingering;
}

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
   * @throws PlantStoreError, or whatever the store throws, before anything was answered.
   */
  async read(admitted: Admitted, id: bigint | undefined): Promise<void> {
    if (id === undefined) return this.#list(admitted);
    const { req, res } = admitted;
    const lease = new ReadLease(this.#pending, LEASE_BYTES.plant, req, res);
    await answerBehind(this.#gets, admitted, lease, () => getPlant(this.#plants, id, req, lease));
  }

  async #list(admitted: Admitted): Promise<void> {
    const { req, res, requireCurrent } = admitted;
    if (!res.headersSent) res.appendHeader("Vary", "Accept");
    const query = parseListQuery(req.url ?? "");
    const lease = new ReadLease(this.#pending, LEASE_BYTES.list, req, res);
    if (!wantsStream(req)) {
      const read = () => listPlants(this.#plants, query, lease);
      return answerBehind(this.#lists, admitted, lease, read);
    }
    const requestId = nameRequest(req);
    const stream = {
      slices: sliceLines(this.#plants, query),
      lease,
      pace: this.#pace,
      gate: this.#lists,
      requireCurrent,
      requestId,
      sentBytes: 0,
    };
    const end = await streamPlants(res, stream);
    if (end === "unsent") return;
    if (!res.headersSent) return answerNobody(req, res);
    publishAnswer({ status: 200, cut: end === "cut", sentBytes: stream.sentBytes }, requestId, req);
  }
}

/** Reads when it is the request's turn, unless its client has left by then. */
async function answerBehind(
  gate: Gate,
  { req, res, requireCurrent, lingering }: Admitted,
  lease: ReadLease,
  read: () => Promise<Reply>,
): Promise<void> {
  const reply = await gate.pass(async () => (lease.isOver ? undefined : read()));
  if (reply === undefined) return answerNobody(req, res);
  requireCurrent();
  answer(req, res, reply, lingering);
}
