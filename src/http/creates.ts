/**
 * The operation that creates, from an admitted request to its answer.
 *
 * A request and its body borrow from their budgets until the answer. A plant is answered once it is
 * durable, and a request that was answered before its body was whole creates none.
 */
import { encodePlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService, VerifiedToken } from "../core/services.ts";
import { answer, answerNobody, type Exchange } from "./answer.ts";
import type { Authenticator } from "./bearer.ts";
import { BodyCollector, collectStream, requireLength, requireUnread } from "./body.ts";
import { Budget, overloaded, weightOf } from "./budget.ts";
import { DirectRequest } from "./direct-request.ts";
import { okReply } from "./reply.ts";
import { requireJson } from "./request-head.ts";
import { noteBody } from "./request-message.ts";

export interface CreateLimits {
  readonly bodyBytesMax: number;
  readonly pendingBytesMax: number;
  readonly pendingRequestsMax: number;
}

/** What a create holds until it is answered. */
interface Held {
  /** As how many requests it counts. */
  readonly weight: number;
  bodyBytes: number;
}

export class Creates {
  readonly #plants: PlantService;
  readonly #authenticator: Authenticator;
  readonly #bodyBytesMax: number;
  readonly #requests: Budget;
  readonly #bodies: Budget;
  #count = 0;

  constructor(plants: PlantService, authenticator: Authenticator, limits: CreateLimits) {
    this.#plants = plants;
    this.#authenticator = authenticator;
    this.#bodyBytesMax = limits.bodyBytesMax;
    this.#requests = new Budget(limits.pendingRequestsMax);
    this.#bodies = new Budget(limits.pendingBytesMax);
  }

  /** How many there were so far. */
  get count(): number {
    return this.#count;
  }

  /**
   * Answers once the plant is durable; a repeat of one that is gets the same answer.
   *
   * @throws PlantStoreError at once for what is wrong with the head. Rejects for what is wrong with
   * the body, and with what the store throws.
   */
  create(exchange: Exchange, sender: VerifiedToken): Promise<void> {
    const { req } = exchange;
    requireJson(req);
    requireLength(req.headers, this.#bodyBytesMax);
    requireUnread(req);
    const weight = weightOf(req);
    if (!this.#requests.take(weight, 0)) throw overloaded();
    this.#count++;
    return this.#carryOut(exchange, sender, { weight, bodyBytes: 0 });
  }

  async #carryOut(exchange: Exchange, sender: VerifiedToken, held: Held): Promise<void> {
    try {
      const plant = await this.#receive(exchange, sender, held);
      if (plant === undefined) return answerNobody(exchange.req, exchange.res);
      await this.#plants.create(plant);
      answer(exchange, okReply(encodePlant(plant)));
    } finally {
      this.#requests.giveBack(held.weight);
      this.#bodies.giveBack(held.bodyBytes);
    }
  }

  /** @returns the plant; `undefined` if nobody waits for the answer any more. */
  #receive(
    { req, res, sendContinue }: Exchange,
    sender: VerifiedToken,
    held: Held,
  ): Promise<NewPlant | undefined> {
    return new Promise((resolve, reject) => {
      const collector = new BodyCollector(this.#bodyBytesMax, this.#bodies, (body, failure) => {
        held.bodyBytes = body?.length ?? 0;
        if (failure !== undefined) return reject(failure);
        // A client that was answered otherwise, with a timeout perhaps, was promised no plant.
        if (body === undefined || res.headersSent) return resolve(undefined);
        noteBody(req, body.length);
        try {
          this.#authenticator.requireCurrent(sender); // the body may have come long after the head
          resolve(parseNewPlant(body));
        } catch (error) {
          reject(error);
        }
      });
      sendContinue?.();
      if (req instanceof DirectRequest) req.collect(collector);
      else collectStream(req, collector);
    });
  }
}
