/**
 * Chance that can be repeated. A source is a seed and a name; `fork` gives an independent source for another
 * name, and draws nothing: an operation that is taken out of a life shifts the chance of no other.
 */

/** A hash of 128 bits, as four numbers of 32 (cyrb128). */
export function hashText(text: string): [number, number, number, number] {
  let [a, b, c, d] = [1779033703, 3144134277, 1013904242, 2773480762];
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    a = b ^ Math.imul(a ^ code, 597399067);
    b = c ^ Math.imul(b ^ code, 2869860233);
    c = d ^ Math.imul(c ^ code, 951274213);
    d = a ^ Math.imul(d ^ code, 2716044179);
  }
  a = Math.imul(c ^ (a >>> 18), 597399067);
  b = Math.imul(d ^ (b >>> 22), 2869860233);
  c = Math.imul(a ^ (c >>> 17), 951274213);
  d = Math.imul(b ^ (d >>> 19), 2716044179);
  return [(a ^ b ^ c ^ d) >>> 0, (b ^ a) >>> 0, (c ^ a) >>> 0, (d ^ a) >>> 0];
}

export class Random {
  readonly seed: string;
  #state: [number, number, number, number] | undefined;

  constructor(seed: string) {
    this.seed = seed;
  }

  /** A source of its own. Equal names give equal sources, however much was drawn from this one. */
  fork(name: string): Random {
    return new Random(`${this.seed}/${name}`);
  }

  /** From 0 up to, not including, 1 (sfc32). */
  next(): number {
    this.#state ??= hashText(this.seed);
    const state = this.#state;
    let [a, b, c, d] = state;
    const sum = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + sum) | 0;
    state[0] = a;
    state[1] = b;
    state[2] = c;
    state[3] = d;
    return (sum >>> 0) / 2 ** 32;
  }

  /** A whole number from 0 up to, not including, `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  /** A whole number, both ends included. */
  between(min: number, max: number): number {
    return min + this.below(max - min + 1);
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability;
  }

  /** @throws if there is nothing to choose from. */
  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error("nothing to choose from");
    return items[this.below(items.length)] as T;
  }

  /** A delay: most are short, a few are many times the mean. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.next());
  }

  /** The same items in another order. */
  shuffle<T>(items: readonly T[]): T[] {
    const shuffled = [...items];
    for (let at = shuffled.length - 1; at > 0; at--) {
      const other = this.below(at + 1);
      const item = shuffled[at] as T;
      shuffled[at] = shuffled[other] as T;
      shuffled[other] = item;
    }
    return shuffled;
  }

  bytes(count: number): Buffer {
    const bytes = Buffer.allocUnsafe(count);
    let rest = 0;
    for (let at = 0; at < count; at++) {
      if (at % 4 === 0) rest = Math.floor(this.next() * 2 ** 32);
      bytes[at] = rest >>> (8 * (at % 4));
    }
    return bytes;
  }
}
