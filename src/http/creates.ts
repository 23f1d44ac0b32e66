/**
 * The operation that creates, from an admitted request to its answer.
 *
 * A request and its body borrow from their budgets until the answer. A plant is answered once it is
 * durable, and a request that was answered before its body was whole creates none.
 */
import { type Numbers, readNumber } from "../core/options.ts";
import { encodePlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService, VerifiedToken } from "../core/services.ts";
import { answer, answerFailure, type Exchange, publishCut } from "./answer.ts";
import type { Authenticator } from "./bearer.ts";
import { BodyCollector, collectBody, requireBody } from "./body.ts";
import { Budget, overloaded, weightOf } from "./budget.ts";
import { okReply } from "./reply.ts";
import { requireJson } from "./request-head.ts";
import { notesOf } from "./request-message.ts";

export class Creates {
  /** The creates so far. */
  count = 0;
  readonly #plants: PlantService;
  readonly #authenticator: Authenticator;
  readonly #bodyBytesMax: number;
  readonly #requests: Budget;
  readonly #bodies: Budget;

  /** @throws TypeError or RangeError for a number out of its range. */
  constructor(plants: PlantService, authenticator: Authenticator, options: Numbers) {
    this.#plants = plants;
    this.#authenticator = authenticator;
    this.#bodyBytesMax = readNumber(options, "bodyBytesMax");
    this.#requests = new Budget(readNumber(options, "pendingRequestsMax"));
    this.#bodies = new Budget(readNumber(options, "pendingBytesMax"));
  }

  /**
   * Judges the rest of the head, reads the body, and answers: a later fault, or the durable plant.
   *
   * @throws PlantStoreError for a fault of the head, which the caller answers.
   */
  create(exchange: Exchange, sender: VerifiedToken): void {
    const { req, res, sendContinue } = exchange;
    requireJson(req);
    requireBody(req, this.#bodyBytesMax);
    const weight = weightOf(req);
    if (!this.#requests.take(weight, 0)) throw overloaded(); // a request alone always has room
    this.count++;
    const collector = new BodyCollector(this.#bodyBytesMax, this.#bodies, (body, failure) => {
      // A client that was answered otherwise, with a timeout perhaps, was promised no plant.
      if (body !== undefined && !res.headersSent) this.#parse(exchange, sender, body, weight);
      else {
        this.#giveBack(weight, body?.length);
        if (failure !== undefined) answerFailure(exchange, failure);
        else publishCut(req, res);
      }
    });
    sendContinue?.();
    collectBody(req, collector);
  }

  /** Not in `#store`: an async function would keep the body until the plant is durable. */
  #parse(exchange: Exchange, sender: VerifiedToken, body: Buffer, weight: number): void {
    const notes = notesOf(exchange.req);
    if (notes !== undefined) notes.bodyBytes = body.length;
    try {
      // The body may arrive long after the head.
      const isCurrent = this.#authenticator.requireCurrent(sender);
      if (isCurrent !== undefined) void this.#parseLater(exchange, isCurrent, body, weight);
      else void this.#store(exchange, parseNewPlant(body), weight, body.length);
    } catch (error) {
      this.#giveBack(weight, body.length);
      answerFailure(exchange, error);
    }
  }

  async #parseLater(
    exchange: Exchange,
    isCurrent: Promise<void>,
    body: Buffer,
    weight: number,
  ): Promise<void> {
    try {
      await isCurrent;
      // A client that was answered meanwhile was promised no plant.
      if (exchange.res.headersSent) this.#giveBack(weight, body.length);
      else void this.#store(exchange, parseNewPlant(body), weight, body.length);
    } catch (error) {
      this.#giveBack(weight, body.length);
      answerFailure(exchange, error);
    }
  }

  async #store(
    exchange: Exchange,
    plant: NewPlant,
    weight: number,
    bodyBytes: number,
  ): Promise<void> {
    try {
      await this.#plants.create(plant);
      answer(exchange, okReply(encodePlant(plant)));
    } catch (error) {
      answerFailure(exchange, error);
    } finally {
      this.#giveBack(weight, bodyBytes);
    }
  }

  #giveBack(weight: number, bodyBytes = 0): void {
    this.#requests.giveBack(weight);
    this.#bodies.giveBack(bodyBytes);
  }
}
