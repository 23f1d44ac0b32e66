/**
 * Remembers the plants of a run: which were sent, and which the server has acknowledged.
 *
 * A plant is a number, from which its id, name and tag follow. So a plant takes one byte of memory,
 * and a line of the log can be compared byte by byte.
 */
import { Random } from "./random.ts";

/** From here on a double has no room for the last digit of an id, and rounds it to that of another plant. */
const FIRST_ID = 9_007_199_254_740_993n;

const SENT = 0;
const ACKNOWLEDGED = 1;

export interface PlantBookOptions {
  readonly hasLongNames?: boolean;
  readonly hasEqualLines?: boolean;
}

export class PlantBook {
  /** How many plants were sent; their numbers are all below this. */
  taken = 0;
  acknowledged = 0;
  #states = new Uint8Array(1024);
  readonly #hasLongNames: boolean;
  readonly #hasEqualLines: boolean;

  /**
   * With long names, one plant in a hundred fills pages, and one in a thousand many of them; with
   * equal lines, all have the same length.
   */
  constructor({ hasLongNames = false, hasEqualLines = false }: PlantBookOptions) {
    this.#hasLongNames = hasLongNames;
    this.#hasEqualLines = hasEqualLines;
  }

  /** The number of a plant that is about to be sent for the first time. */
  take(): number {
    if (this.taken === this.#states.length) {
      const larger = new Uint8Array(this.taken * 2);
      larger.set(this.#states);
      this.#states = larger;
    }
    this.#states[this.taken] = SENT;
    return this.taken++;
  }

  acknowledge(plant: number): void {
    if (this.#states[plant] === SENT) this.acknowledged++;
    this.#states[plant] = ACKNOWLEDGED;
  }

  acknowledgeAll(): void {
    for (let plant = 0; plant < this.taken; plant++) this.acknowledge(plant);
  }

  isAcknowledged(plant: number): boolean {
    return plant < this.taken && this.#states[plant] === ACKNOWLEDGED;
  }

  /** A random acknowledged plant, or `undefined` if none is found. */
  pickAcknowledged(random: Random): number | undefined {
    for (let attempt = 0; attempt < 8; attempt++) {
      const plant = random.below(this.taken);
      if (this.isAcknowledged(plant)) return plant;
    }
    return undefined;
  }

  /** Acknowledged plants: the newest, and as many random ones. */
  sample(count: number, random: Random): number[] {
    const sample = new Set<number>();
    for (let plant = this.taken - 1; plant >= 0 && sample.size < count / 2; plant--) {
      if (this.isAcknowledged(plant)) sample.add(plant);
    }
    for (let picked = 0; picked < count / 2; picked++) {
      const plant = this.pickAcknowledged(random);
      if (plant !== undefined) sample.add(plant);
    }
    return [...sample];
  }

  /** The line of the log, which is also a body that creates it. */
  line(plant: number): string {
    return `{"id":${FIRST_ID + BigInt(plant)},${this.#members(plant)}}`;
  }

  /** The answer to its create. */
  answer(plant: number): string {
    return `{${this.#members(plant)}}`;
  }

  /** A body with the id of this plant and another name. */
  conflict(plant: number): string {
    return `{"id":${FIRST_ID + BigInt(plant)},"name":"not plant ${plant}"}`;
  }

  /** The plant whose id a line has; `undefined` if the id is not one of ours. */
  numberOf(line: string): number | undefined {
    const id = /^\{"id":(-?[0-9]{1,19}),/.exec(line)?.[1];
    const plant = id === undefined ? -1 : Number(BigInt(id) - FIRST_ID);
    return plant >= 0 && plant < this.taken ? plant : undefined;
  }

  #members(plant: number): string {
    if (this.#hasEqualLines) return `"name":"Fern ${String(plant).padStart(9, "0")}"`;
    const tag = plant % 3 === 0 ? "" : `,"tag":"bed ${plant % 97}"`;
    return `"name":"Fern ${plant} ü🌿${"x".repeat(this.#fillerLength(plant))}"${tag}`;
  }

  #fillerLength(plant: number): number {
    const random = new Random(plant);
    const kind = this.#hasLongNames ? random.next() : 1;
    if (kind < 0.001) return random.below(200_000);
    if (kind < 0.01) return random.below(20_000);
    return random.below(100);
  }
}
