/**
 * Creates of new plants that wait for the disk, by their ids.
 *
 * Whoever creates such an id meanwhile shares the outcome of the first: any
 * earlier answer would say "stored" about a plant that is not.
 *
 * A table of its own, of chains, because a `Map` makes itself anew for every so
 * many entries that came and went, and each one that it leaves keeps the next
 * alive for V8's young generation, with all that was in it: creates were copied
 * twice and kept until a full collection (6 % of creates, 256 connections).
 */
import type { PlantStoreError } from "../core/errors.ts";
import type { NewPlant } from "../core/plant.ts";
import type { CreateOutcome } from "../core/services.ts";
import type { Waiter } from "../log/batch.ts";
import { judgeRepeat } from "./repeat.ts";

const CHAINS = 1024;

export class CreatesInFlight {
  readonly #chains = new Array<CreateInFlight | undefined>(CHAINS).fill(undefined);

  /** @param hash the same for equal ids, and which nobody can choose. */
  find(id: bigint, hash: number): CreateInFlight | undefined {
    let create = this.#chains[chainOf(hash)];
    while (create !== undefined && create.plant.id !== id) create = create.next;
    return create;
  }

  add(create: CreateInFlight): void {
    const chain = chainOf(create.hash);
    create.next = this.#chains[chain];
    this.#chains[chain] = create;
  }

  remove(create: CreateInFlight): void {
    const chain = chainOf(create.hash);
    let before: CreateInFlight | undefined;
    let at = this.#chains[chain];
    for (; at !== undefined && at !== create; at = at.next) before = at;
    if (at === undefined) return;
    if (before === undefined) this.#chains[chain] = create.next;
    else before.next = create.next;
    create.next = undefined;
  }
}

function chainOf(hash: number): number {
  return hash & (CHAINS - 1);
}

/** Told first when a create is over, with the offset of its record if it was stored. */
export type OverHandler = (create: CreateInFlight, offset?: number) => void;

export class CreateInFlight implements Waiter {
  readonly plant: NewPlant;
  readonly hash: number;
  readonly outcome: Promise<CreateOutcome>;
  /** In its chain. */
  next: CreateInFlight | undefined = undefined;
  readonly #onOver: OverHandler;
  #resolve: (outcome: CreateOutcome) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(plant: NewPlant, hash: number, onOver: OverHandler) {
    this.plant = plant;
    this.hash = hash;
    this.#onOver = onOver;
    this.outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  durable(offset: number): void {
    try {
      this.#onOver(this, offset);
      this.#resolve("created");
    } catch (error) {
      this.#reject(error);
    }
  }

  failed(error: PlantStoreError): void {
    this.#onOver(this);
    this.#reject(error);
  }

  /**
   * What a create of the same id comes to.
   *
   * @throws PlantStoreError like the create itself, or `conflict`.
   */
  async repeat(plant: NewPlant): Promise<CreateOutcome> {
    await this.outcome;
    return judgeRepeat(this.plant, plant);
  }
}
