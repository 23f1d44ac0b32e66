/**
 * The operation that creates, from an admitted request to its answer.
 *
 * A request, its body and its answer borrow from their budgets until the system has the answer: what the
 * answer needs is lent before the plant is stored. A plant is answered once it is durable, and a request
 * that was answered before its body was whole creates none.
 */
import { setImmediate } from "node:timers/promises";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import { type Numbers, readNumber } from "../core/options.ts";
import { encodePlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService, VerifiedToken } from "../core/services.ts";
import { answer, answerFailure, type Exchange, okReply, publishCut } from "./answer.ts";
import { afterSent, BodyCollector, Budget, Lease, overloaded, requireBody } from "./body.ts";
import { type Authenticator, type Head, requireJson } from "./head.ts";
import { collectBody } from "./node-internals.ts";

/** A longer body may take 40 ms a MiB: other requests come in between. */
const LONG_BYTES = 32 * 1024;
/** Turns of the event loop before each: Node accepts one connection in a turn. */
const TURNS = 8;
/** For the default of places: a request holds about 6 KiB besides its body, and few come at once. */
const PLACE_BYTES = 4 * 1024;
/** An ordinary request; one with a head of 16 KiB counts as four at most. */
const WEIGHT_BYTES = 8 * 1024;

export class Creates {
  /** The creates so far. */
  count = 0;
  /** Those whose plants are being stored. */
  underWay = 0;
  readonly #plants: PlantService;
  readonly #authenticator: Authenticator;
  readonly #bodyBytesMax: number;
  readonly #places: Budget;
  readonly #bytes: Budget;
  readonly #longBodies = new Gate(1);

  /** @throws RangeError for a number out of its range. */
  constructor(plants: PlantService, authenticator: Authenticator, options: Numbers) {
    this.#plants = plants;
    this.#authenticator = authenticator;
    this.#bodyBytesMax = readNumber(options, "bodyBytesMax");
    this.#places = Budget.of(options, "pendingRequestsMax", PLACE_BYTES);
    this.#bytes = Budget.of(options, "pendingBytesMax");
  }

  /**
   * Judges the rest of the head, reads the body, and answers: a later fault, or the durable plant.
   *
   * @throws PlantStoreError for a fault of the head, which the caller answers.
   */
  create(exchange: Exchange, head: Head, sender: VerifiedToken): void {
    const { req, sendContinue } = exchange;
    requireJson(req, head);
    const declared = requireBody(req, this.#bodyBytesMax);
    const place = new Lease(this.#places, sender.name);
    if (!place.hold(Math.max(1, Math.round(head.bytes / WEIGHT_BYTES)))) throw overloaded();
    this.count++;
    const bytes = new Lease(this.#bytes, sender.name);
    const giveBack = () => {
      place.hold(0);
      bytes.hold(0);
    };
    // The parser calls the collector outside the AsyncLocalStorage of the caller; a promise keeps it.
    const arriving = new Promise<Buffer | undefined>((resolve, reject) => {
      const collector = new BodyCollector(this.#bodyBytesMax, declared, bytes, (body, failure) =>
        failure === undefined ? resolve(body) : reject(failure),
      );
      sendContinue?.();
      collectBody(req, collector);
    });
    void this.#carryOut(exchange, sender, arriving, giveBack);
  }

  #parse({ notes }: Exchange, sender: VerifiedToken, body: Buffer): NewPlant | Promise<NewPlant> {
    if (notes !== undefined) notes.bodyBytes = body.length;
    if (body.length === 0) {
      throw new PlantStoreError("invalid_json", "body: expected a JSON object, got an empty body");
    }
    const tokens = this.#authenticator;
    // The body may arrive long after the head.
    const waiting =
      body.length > LONG_BYTES
        ? this.#longBodies.pass(passTurns, sender.name).then(() => tokens.requireCurrent(sender))
        : tokens.requireCurrent(sender);
    return waiting?.then(() => parseNewPlant(body)) ?? parseNewPlant(body);
  }

  async #carryOut(
    exchange: Exchange,
    sender: VerifiedToken,
    arriving: Promise<Buffer | undefined> | undefined,
    giveBack: () => void,
  ): Promise<void> {
    const { req, res } = exchange;
    try {
      let body = await arriving;
      // A client that was answered otherwise, with a timeout perhaps, was promised no plant.
      const parsed =
        body === undefined || res.headersSent ? undefined : this.#parse(exchange, sender, body);
      arriving = body = undefined; // or they would keep the body until the plant is durable
      const plant = parsed instanceof Promise ? await parsed : parsed;
      if (plant === undefined || res.headersSent) {
        publishCut(req, res);
        return;
      }
      this.underWay++;
      try {
        await this.#plants.create(plant);
      } finally {
        this.underWay--;
      }
      answer(exchange, okReply(encodePlant(plant)));
    } catch (error) {
      answerFailure(exchange, error);
    } finally {
      afterSent(req, res, giveBack);
    }
  }
}

async function passTurns(): Promise<void> {
  for (let turn = 0; turn < TURNS; turn++) await setImmediate();
}
