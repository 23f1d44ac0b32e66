/**
 * Creates of new plants that wait for the disk, by their ids.
 *
 * Whoever creates such an id meanwhile shares the outcome of the first: any
 * earlier answer would say "stored" about a plant that is not.
 *
 * A table of its own, of chains, because a `Map` makes itself anew for every so
 * many entries that came and went, and each one that it leaves keeps the next
 * alive for V8's young generation, with all that was in it: creates were copied
 * twice and kept until a full collection (6 % of creates, 256 connections). This
 * one grows with what is in flight at most, and leaves few tables and no trail of them.
 */
import type { PlantStoreError } from "../core/errors.ts";
import type { NewPlant } from "../core/plant.ts";
import type { CreateOutcome } from "../core/services.ts";
import type { Waiter } from "../log/batch.ts";
import { judgeRepeat } from "./repeat.ts";

/** How many chains there are at first; always a power of two. */
const CHAINS = 1024;
/** In a chain, on average: beyond it there are twice as many chains. */
const LENGTH_MAX = 2;

export class CreatesInFlight {
  #chains = emptyChains(CHAINS);
  #size = 0;

  /** @param hash the same for equal ids, and which nobody can choose. */
  find(id: bigint, hash: number): CreateInFlight | undefined {
    let create = this.#chains[this.#chainOf(hash)];
    while (create !== undefined && (create.hash !== hash || create.plant.id !== id)) {
      create = create.next;
    }
    return create;
  }

  add(create: CreateInFlight): void {
    if (++this.#size > LENGTH_MAX * this.#chains.length) this.#grow();
    this.#link(create);
  }

  remove(create: CreateInFlight): void {
    const chain = this.#chainOf(create.hash);
    let before: CreateInFlight | undefined;
    let at = this.#chains[chain];
    for (; at !== undefined && at !== create; at = at.next) before = at;
    if (at === undefined) return;
    if (before === undefined) this.#chains[chain] = create.next;
    else before.next = create.next;
    create.next = undefined;
    this.#size--;
  }

  #link(create: CreateInFlight): void {
    const chain = this.#chainOf(create.hash);
    create.next = this.#chains[chain];
    this.#chains[chain] = create;
  }

  #grow(): void {
    const chains = this.#chains;
    this.#chains = emptyChains(2 * chains.length);
    for (let create of chains) {
      while (create !== undefined) {
        const { next } = create;
        this.#link(create);
        create = next;
      }
    }
  }

  #chainOf(hash: number): number {
    return hash & (this.#chains.length - 1);
  }
}

function emptyChains(count: number): (CreateInFlight | undefined)[] {
  return new Array<CreateInFlight | undefined>(count).fill(undefined);
}

/** Told first when a create is over, with the offset of its record if it was stored. */
export type OverHandler = (create: CreateInFlight, offset?: number) => void;

export class CreateInFlight implements Waiter {
  readonly plant: NewPlant;
  readonly hash: number;
  /** Resolves with the offset of its record once that is durable. */
  readonly stored: Promise<number>;
  /** In its chain. */
  next: CreateInFlight | undefined = undefined;
  readonly #onOver: OverHandler;
  #resolve: (offset: number) => void = () => {};
  #reject: (error: unknown) => void = () => {};

  constructor(plant: NewPlant, hash: number, onOver: OverHandler) {
    this.plant = plant;
    this.hash = hash;
    this.#onOver = onOver;
    this.stored = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  durable(offset: number): void {
    try {
      this.#onOver(this, offset);
      this.#resolve(offset);
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
    await this.stored;
    return judgeRepeat(this.plant, plant);
  }
}
