/**
 * Clients that create plants and repeat them on a server that may end at any moment, and a comparison of its log
 * with what it acknowledged. A plant is a number, from which its id, name and tag follow.
 */
import { post, type Target } from "./trial.ts";

/** From here on a double has no room for the last digit of an id, and rounds it to that of another plant. */
const FIRST_ID = 9_007_199_254_740_993n;

/** The numbers from one to another, without that. */
export function range(from: number, to: number, step = 1): number[] {
  return Array.from({ length: (to - from) / step }, (_, at) => from + at * step);
}

/** What was sent in the lives of one data directory, and what was acknowledged. */
export class Book {
  sent = 0;
  readonly acknowledged = new Set<number>();
  /** Answers that no correct server gives. */
  readonly wrong: string[] = [];

  /** The last plants that were acknowledged, and as many others. */
  sample(count: number): number[] {
    const all = [...this.acknowledged];
    const others = range(0, count).flatMap(() => all[Math.floor(Math.random() * all.length)] ?? []);
    return [...new Set([...all.slice(-count), ...others])];
  }

  /** The line of the log, which is also a body that creates it. */
  line(plant: number): string {
    return `{"id":${FIRST_ID + BigInt(plant)},${this.answer(plant).slice(1)}`;
  }

  /** The body of the answer. One plant in a hundred fills pages, and one in a thousand many of them. */
  answer(plant: number): string {
    const length = plant % 1000 === 999 ? 150_000 : plant % 100 === 99 ? 15_000 : plant % 97;
    const tag = plant % 3 === 0 ? "" : `,"tag":"bed ${plant % 97}"`;
    return `{"name":"Fern ${plant} ü🌿${"x".repeat(length)}"${tag}}`;
  }

  /** The log of the plants from one to another. */
  lines(from: number, to: number): string {
    return range(from, to)
      .map((plant) => `${this.line(plant)}\n`)
      .join("");
  }

  /** What is wrong with answers and a log: plants that are lost, there twice, or were never sent. */
  findFaults(log: string): string[] {
    const lines = log.split("\n");
    const faults = [...this.wrong];
    if (lines.pop() !== "") faults.push("the last line has no line feed");
    const seen = new Set<number>();
    for (const line of lines) {
      const id = /^\{"id":([0-9]{1,19}),/.exec(line)?.[1] ?? "-1";
      const plant = Number(BigInt(id) - FIRST_ID);
      const isSent = plant >= 0 && plant < this.sent && line === this.line(plant);
      if (!isSent) faults.push(`no plant that was sent: ${line.slice(0, 100)}`);
      else if (seen.has(plant)) faults.push(`plant ${plant} is there twice`);
      else seen.add(plant);
    }
    const lost = [...this.acknowledged].filter((plant) => !seen.has(plant));
    return [...faults, ...lost.map((plant) => `plant ${plant} is lost`)];
  }

  /** Creates a plant, new or not; returns whether it was acknowledged. */
  async create(target: Target, plant: number): Promise<boolean> {
    const { status, text } = await post(target, this.line(plant));
    if (status === 200 && text === this.answer(plant)) this.acknowledged.add(plant);
    else if (status !== 0) this.wrong.push(`create of plant ${plant}: ${status} ${text}`);
    return status !== 0;
  }

  /** Creates plants one by one; each must be acknowledged. */
  async createAll(target: Target, plants: readonly number[]): Promise<void> {
    for (const plant of plants) {
      if (!(await this.create(target, plant))) this.wrong.push(`plant ${plant}: no answer`);
    }
  }
}

/** Creates plants until it is stopped or the server has gone. Returns how to stop it. */
export function startLoad(target: Target, book: Book): () => Promise<void> {
  let isStopped = false;
  const run = async () => {
    for (let isAnswered = true; isAnswered && !isStopped; ) {
      // One that was sent before, one that another client has just sent, or a new one.
      const chance = book.sent > 0 ? Math.random() : 1;
      const known = chance < 0.1 ? Math.floor(Math.random() * book.sent) : book.sent - 1;
      isAnswered = await book.create(target, chance < 0.15 ? known : book.sent++);
    }
  };
  const ended = Promise.all(Array.from({ length: 64 }, run));
  return async () => {
    isStopped = true;
    await ended;
  };
}
