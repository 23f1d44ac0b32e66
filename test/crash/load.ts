/**
 * Clients that create plants, repeat them, and use their ids for other plants, on keep-alive
 * connections. They judge every answer.
 */
import { type Answer, Connection } from "./connection.ts";
import type { PlantBook } from "./plant-book.ts";
import type { Random } from "./random.ts";

/** The server, and what is known about the plants that were sent to it. */
export interface Target {
  readonly port: number;
  readonly token: string;
  readonly book: PlantBook;
}

/** The outcomes of the requests of one run. */
export interface Tally {
  answered: number;
  /** 503: the outcome is unknown. */
  refused: number;
  /** Descriptions of answers that no correct server gives; the first few only. */
  readonly wrong: string[];
}

/** The probability of each kind of request; all others create new plants. */
export interface Mix {
  readonly replay: number;
  readonly conflict: number;
  /** A plant that another connection has just sent. */
  readonly twin: number;
}

export const USUAL_MIX: Mix = { replay: 0.1, conflict: 0.03, twin: 0.05 };

const WRONG_KEPT = 10;

function newTally(): Tally {
  return { answered: 0, refused: 0, wrong: [] };
}

/** Sends a plant, new or not; returns false if the connection has ended. */
async function sendPlant(
  connection: Connection,
  { token, book }: Target,
  plant: number,
  tally: Tally,
): Promise<boolean> {
  const answer = await connection.post(token, book.line(plant));
  const isStored = answer?.status === 200 && answer.text === book.answer(plant);
  if (isStored) book.acknowledge(plant);
  return judge(connection, answer, isStored, `create of plant ${plant}`, tally);
}

/** Sends another plant with the id of an acknowledged one. */
async function sendConflict(
  connection: Connection,
  { token, book }: Target,
  plant: number,
  tally: Tally,
): Promise<boolean> {
  const answer = await connection.post(token, book.conflict(plant));
  const isRefused = answer?.status === 400 && answer.text.startsWith('{"error":40006,');
  return judge(connection, answer, isRefused, `conflict with plant ${plant}`, tally);
}

function judge(
  connection: Connection,
  answer: Answer | undefined,
  isRight: boolean,
  what: string,
  tally: Tally,
): boolean {
  if (answer === undefined) {
    if (connection.hasTimedOut) noteWrong(tally, `${what}: no answer in time`);
    return false;
  }
  tally.answered++;
  if (answer.status === 503) tally.refused++;
  else if (!isRight) noteWrong(tally, `${what}: ${answer.status} ${answer.text.slice(0, 200)}`);
  return true;
}

function noteWrong(tally: Tally, what: string): void {
  if (tally.wrong.length < WRONG_KEPT) tally.wrong.push(what);
}

export interface LoadOptions extends Target {
  readonly connections: number;
  readonly random: Random;
  readonly mix: Mix;
}

/** A load that continues until it is stopped or the server has gone. */
export class Load {
  readonly tally = newTally();
  readonly #options: LoadOptions;
  #isStopped = false;
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(options: LoadOptions) {
    this.#options = options;
  }

  /** Opens all connections, then starts to send on them. */
  static async start(options: LoadOptions): Promise<Load> {
    const load = new Load(options);
    const opening = Array.from({ length: options.connections }, () =>
      Connection.open(options.port),
    );
    const connections = await Promise.all(opening);
    load.#ended = Promise.all(connections.map((connection) => load.#run(connection)));
    return load;
  }

  /** Sends nothing more, and waits for the outstanding answers or the end of the server. */
  async stop(): Promise<Tally> {
    this.#isStopped = true;
    await this.#ended;
    return this.tally;
  }

  async #run(connection: Connection | undefined): Promise<void> {
    if (connection === undefined) return;
    while (!this.#isStopped && (await this.#sendNext(connection)));
    connection.close();
  }

  #sendNext(connection: Connection): Promise<boolean> {
    const { book, random, mix } = this.#options;
    const chance = random.next();
    const conflicts = mix.replay + mix.conflict;
    const known = chance < conflicts ? book.pickAcknowledged(random) : undefined;
    if (known !== undefined) {
      const send = chance < mix.replay ? sendPlant : sendConflict;
      return send(connection, this.#options, known, this.tally);
    }
    const isTwin = chance > 1 - mix.twin && book.taken > 0;
    const plant = isTwin ? book.taken - 1 : book.take();
    return sendPlant(connection, this.#options, plant, this.tally);
  }
}

/** Repeats plants that were all acknowledged; resolves with descriptions of wrong answers. */
export async function replay(target: Target, plants: readonly number[]): Promise<string[]> {
  const tally = newTally();
  const waiting = [...plants];
  const connections = await Promise.all(
    Array.from({ length: Math.min(8, plants.length) }, () => Connection.open(target.port)),
  );
  const run = async (connection: Connection | undefined) => {
    for (;;) {
      const plant = waiting.pop();
      if (plant === undefined) break;
      if (connection === undefined || !(await sendPlant(connection, target, plant, tally))) {
        noteWrong(tally, `replay of plant ${plant}: no answer`);
        break;
      }
    }
    connection?.close();
  };
  await Promise.all(connections.map(run));
  if (tally.refused > 0) noteWrong(tally, `${tally.refused} replays were answered 503`);
  return tally.wrong;
}
