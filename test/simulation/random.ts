/**
 * Chance that can be repeated. `fork` gives an independent source for a name, and draws nothing: an operation that
 * is taken out of a life shifts the chance of no other.
 */

export function hashText(text: string, seed = 0): number {
  let hash = seed ^ 0x9e3779b1;
  for (let at = 0; at < text.length; at++) {
    hash = Math.imul(hash ^ text.charCodeAt(at), 0x85ebca6b);
    hash = (hash << 13) | (hash >>> 19);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0xc2b2ae35);
  return (hash ^ (hash >>> 13)) >>> 0;
}

export class Random {
  readonly #seed: number;
  #state: number;

  constructor(seed: string | number) {
    this.#seed = typeof seed === "string" ? hashText(seed) : seed;
    this.#state = this.#seed;
  }

  /** Equal names give equal sources, however much was drawn from this one. */
  fork(name: string): Random {
    return new Random(hashText(name, this.#seed));
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let word = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    word ^= word + Math.imul(word ^ (word >>> 7), word | 61);
    return ((word ^ (word >>> 14)) >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 up to, not including, `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  between(min: number, max: number): number {
    return min + this.below(max - min + 1);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }

  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  bytes(count: number): Buffer {
    return Buffer.from(Array.from({ length: count }, () => this.below(256)));
  }
}
