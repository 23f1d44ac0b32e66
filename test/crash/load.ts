/**
 * Clients that create plants, repeat them, and use their ids for other plants, on a server that may end at any
 * moment. They check every answer, and compare the log with what was acknowledged.
 *
 * A plant is a number, from which its id, name and tag follow.
 */
import http from "node:http";
import { text as readText } from "node:stream/consumers";

/** From here on a double has no room for the last digit of an id, and rounds it to that of another plant. */
const FIRST_ID = 9_007_199_254_740_993n;

function pick<T>(items: readonly T[]): T | undefined {
  return items[Math.floor(Math.random() * items.length)];
}

export interface Target {
  readonly url: string;
  readonly token: string;
}

/** What was sent in the lives of one data directory, and what was acknowledged. */
export class Book {
  sent = 0;
  readonly #acknowledged = new Set<number>();
  readonly #order: number[] = [];

  get acknowledged(): number {
    return this.#order.length;
  }

  acknowledge(plant: number): void {
    if (this.#acknowledged.has(plant)) return;
    this.#acknowledged.add(plant);
    this.#order.push(plant);
  }

  pickAcknowledged(): number | undefined {
    return pick(this.#order);
  }

  /** The last plants that were acknowledged, and as many others. */
  sample(count: number): number[] {
    const others = Array.from({ length: count }, () => this.pickAcknowledged() ?? []).flat();
    return [...new Set([...this.#order.slice(-count), ...others])];
  }

  /** The line of the log, which is also a body that creates it. */
  line(plant: number): string {
    return `{"id":${FIRST_ID + BigInt(plant)},${this.#members(plant)}}`;
  }

  /** The body of the answer to its create. */
  answer(plant: number): string {
    return `{${this.#members(plant)}}`;
  }

  /** A body with the id of this plant and another name. */
  conflict(plant: number): string {
    return `{"id":${FIRST_ID + BigInt(plant)},"name":"not plant ${plant}"}`;
  }

  /** One plant in a hundred fills pages, and one in a thousand many of them. */
  #members(plant: number): string {
    const length = plant % 1000 === 999 ? 150_000 : plant % 100 === 99 ? 15_000 : plant % 97;
    const tag = plant % 3 === 0 ? "" : `,"tag":"bed ${plant % 97}"`;
    return `"name":"Fern ${plant} ü🌿${"x".repeat(length)}"${tag}`;
  }

  /** What is wrong with a log: plants that are lost, there twice, or were never sent. */
  findFaults(log: string): string[] {
    const lines = log.split("\n");
    const torn = lines.pop() === "" ? [] : ["the last line has no line feed"];
    const seen = new Set<number>();
    const wrong = lines.flatMap((line) => {
      const id = /^\{"id":([0-9]{1,19}),/.exec(line)?.[1] ?? "-1";
      const plant = Number(BigInt(id) - FIRST_ID);
      if (plant < 0 || plant >= this.sent || line !== this.line(plant)) {
        return [`no plant that was sent: ${line.slice(0, 100)}`];
      }
      if (seen.has(plant)) return [`plant ${plant} is there twice`];
      seen.add(plant);
      return [];
    });
    const lost = this.#order.filter((plant) => !seen.has(plant));
    return [...torn, ...wrong, ...lost.map((plant) => `plant ${plant} is lost`)];
  }
}

interface Answer {
  readonly status: number | undefined;
  readonly text: string;
}

/** One keep-alive connection. */
class Connection {
  readonly #target: Target;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

  constructor(target: Target) {
    this.#target = target;
  }

  /** Sends a create; `undefined` if the connection ended before the answer was whole. */
  async post(body: string): Promise<Answer | undefined> {
    const headers = {
      Authorization: `Bearer ${this.#target.token}`,
      "Content-Type": "application/json",
      "Content-Length": Buffer.byteLength(body),
    };
    try {
      const res = await new Promise<http.IncomingMessage>((resolve, reject) => {
        const options = { method: "POST", headers, agent: this.#agent };
        const req = http.request(`${this.#target.url}/plants`, options, resolve);
        req.once("error", reject).end(body);
      });
      return { status: res.statusCode, text: await readText(res) };
    } catch {
      return undefined;
    }
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** A load that continues until it is stopped or the server has gone. */
export class Load {
  /** Descriptions of answers that no correct server gives. */
  readonly wrong: string[] = [];
  readonly #book: Book;
  readonly #target: Target;
  readonly #ended: Promise<unknown>;
  #isStopped = false;

  constructor(target: Target, book: Book, connections = 64) {
    this.#target = target;
    this.#book = book;
    this.#ended = Promise.all(Array.from({ length: connections }, () => this.#run()));
  }

  /** Sends nothing more, and waits for the outstanding answers or the end of the server. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#ended;
  }

  async #run(): Promise<void> {
    const connection = new Connection(this.#target);
    while (!this.#isStopped && (await this.#sendNext(connection)));
    connection.close();
  }

  async #sendNext(connection: Connection): Promise<boolean> {
    const book = this.#book;
    const chance = Math.random();
    const known = chance < 0.13 ? book.pickAcknowledged() : undefined;
    if (known !== undefined && chance < 0.03) return this.#sendConflict(connection, known);
    if (known !== undefined) return this.#send(connection, known);
    // A plant that another connection has just sent, or a new one.
    const isTwin = chance > 0.95 && book.sent > 0;
    return this.#send(connection, isTwin ? book.sent - 1 : book.sent++);
  }

  /** Sends a plant, new or not; `false` if the connection has ended. */
  async #send(connection: Connection, plant: number): Promise<boolean> {
    const answer = await connection.post(this.#book.line(plant));
    if (answer?.status === 200 && answer.text === this.#book.answer(plant)) {
      this.#book.acknowledge(plant);
    } else this.#note(`create of plant ${plant}`, answer);
    return answer !== undefined;
  }

  async #sendConflict(connection: Connection, plant: number): Promise<boolean> {
    const answer = await connection.post(this.#book.conflict(plant));
    const isRefused = answer?.status === 400 && answer.text.startsWith('{"error":40006,');
    if (!isRefused) this.#note(`conflict with plant ${plant}`, answer);
    return answer !== undefined;
  }

  #note(what: string, answer: Answer | undefined): void {
    if (answer !== undefined) this.wrong.push(`${what}: ${answer.status} ${answer.text}`);
  }
}

/** Repeats plants, and acknowledges them; resolves with descriptions of wrong answers. */
export async function repeat(target: Target, book: Book, plants: readonly number[]) {
  const connection = new Connection(target);
  const wrong: string[] = [];
  for (const plant of plants) {
    const answer = await connection.post(book.line(plant));
    const isRight = answer?.status === 200 && answer.text === book.answer(plant);
    if (isRight) book.acknowledge(plant);
    else wrong.push(`repeat of plant ${plant}: ${answer?.status} ${answer?.text}`);
  }
  connection.close();
  return wrong;
}
