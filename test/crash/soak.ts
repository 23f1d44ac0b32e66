/**
 * A server under full load for minutes: creates, repeats, conflicts, reads and streams, with kills,
 * stops, full disks and changes of tokens. One process runs for the last two fifths of the time, and
 * its memory and descriptors have to stay level.
 */
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createToken, revokeToken } from "../../src/index.ts";
import { Connection } from "./connection.ts";
import { Load, type Mix, replay } from "./load.ts";
import { checkLog } from "./log-check.ts";
import { lateGrowth, openDescriptors, residentBytes, type Sample } from "./memory.ts";
import { PlantBook } from "./plant-book.ts";
import type { Program } from "./program.ts";
import { Random } from "./random.ts";
import { addFindings, newTotals, type Totals } from "./report.ts";
import { describeEnd, Server } from "./server.ts";
import { SmallDisk } from "./small-disk.ts";
import { StreamCheck } from "./stream-check.ts";

export interface SoakOptions {
  readonly seconds: number;
  readonly seed: number;
  readonly connections: number;
  readonly print: (line: string) => void;
}

/** Full load, mostly of requests that do not make the log grow. */
const MIX: Mix = { replay: 0.45, conflict: 0.05, read: 0.2, twin: 0.05 };
/** Kills and stops end after this share of the time. */
const KILLING_SHARE = 0.6;
const FULL_SECONDS = 4;
const PRINT_EVERY_SECONDS = 60;
/** A change of a token has to be in force within this time. */
const TOKEN_DEADLINE_MS = 5000;
const HEAL_DEADLINE_MS = 20_000;
const REPLAYS = 2000;
/** Descriptors that may happen to be open in one quarter and not in another. */
const DESCRIPTORS_SLACK = 4;
const SCOPES = ["write", "read"] as const;

export async function runSoak(program: Program, options: SoakOptions): Promise<Totals> {
  const disk = new SmallDisk();
  try {
    if (!disk.canFill) options.print("mounting is not permitted: no full disks in this run");
    const soak = new Soak(program, disk, options);
    await soak.run().catch((error) => soak.totals.faults.push(String(error)));
    return soak.totals;
  } finally {
    disk.remove();
  }
}

class Soak {
  readonly totals = newTotals();
  readonly #program: Program;
  readonly #disk: SmallDisk;
  readonly #options: SoakOptions;
  readonly #random: Random;
  readonly #folder: string;
  readonly #target = { port: 0, token: "", book: new PlantBook({ hasLongNames: false }) };
  #server: Server | undefined;
  #load: Load | undefined;
  /** The samples of the current process. */
  #samples: Sample[] = [];
  #tokens = 0;
  #refused = 0;
  #fullDisks = 0;
  #stops = 0;
  #nextPrint = PRINT_EVERY_SECONDS;

  constructor(program: Program, disk: SmallDisk, options: SoakOptions) {
    this.#program = program;
    this.#disk = disk;
    this.#options = options;
    this.#random = new Random(options.seed);
    this.#folder = join(disk.folder, "data");
  }

  async run(): Promise<void> {
    const { seconds } = this.#options;
    this.#target.token = await createToken(this.#folder, { name: "token-0", scopes: SCOPES });
    await this.#start();
    const meter = setInterval(() => this.#measure(), 1000);
    const streams = new StreamCheck(this.#target);
    try {
      while (this.#elapsed() < seconds * KILLING_SHARE) await this.#step(true);
      await this.#restart(true); // the process whose memory is judged
      while (this.#elapsed() < seconds) await this.#step(false);
      await streams.stop();
      this.totals.faults.push(...streams.faults);
      if (streams.whole === 0) this.totals.faults.push("no stream was read to its end");
      this.#options.print(`${streams.whole} whole streams, ${streams.lines} lines of streams`);
      await this.#finish();
    } finally {
      clearInterval(meter);
      await streams.stop();
      await this.#server?.kill();
      await this.#load?.stop();
    }
  }

  /** One event in the life of a server, after some seconds of load only. */
  async #step(kills: boolean): Promise<void> {
    await sleep(1000 + this.#random.below(4000));
    const event = this.#random.pick(["token", "token", "full", kills ? "kill" : "full"]);
    if (event === "token") await this.#changeToken();
    else if (event === "kill") await this.#restart(this.#random.next() < 0.5);
    else if (this.#disk.canFill) await this.#fillDisk(kills && this.#random.next() < 0.5);
  }

  async #start(): Promise<void> {
    const { seconds } = this.#options;
    const deadlineMs = (seconds + 120) * 1000;
    const server = new Server(this.#program, this.#folder, { deadlineMs });
    const port = await server.ready;
    if (port === undefined) {
      this.totals.failedStarts++;
      throw new Error(`a start ${describeEnd(await server.ended)}`);
    }
    this.#server = server;
    this.#target.port = port;
    this.#samples = [];
    await this.#startLoad();
  }

  async #startLoad(): Promise<void> {
    const { connections } = this.#options;
    const options = Object.assign(this.#target, { connections, random: this.#random, mix: MIX });
    this.#load = await Load.start(options);
  }

  async #endLoad(): Promise<void> {
    const tally = await this.#load?.stop();
    this.totals.faults.push(...(tally?.wrong ?? []));
    this.#refused += tally?.refused ?? 0;
  }

  /** A kill or a stop under load, then a new server on the same folder. */
  async #restart(kills: boolean): Promise<void> {
    if (kills) {
      await this.#server?.kill();
      this.totals.kills++;
    } else {
      await this.#stop();
      this.#stops++;
    }
    await this.#endLoad();
    this.#disk.giveRoom(); // a start on a full disk may end with status 1
    await this.#start();
  }

  async #stop(): Promise<void> {
    const ended = (await this.#server?.stop()) as Awaited<Server["ended"]>;
    if (ended.status !== 0) this.totals.faults.push(`a clean stop ${describeEnd(ended)}`);
  }

  /** Fills the disk for a while: requests get 503, and the server recovers by itself, also after a kill. */
  async #fillDisk(kills: boolean): Promise<void> {
    const refused = this.#load?.tally.refused ?? 0;
    this.#disk.fill();
    await this.#until("requests are refused", HEAL_DEADLINE_MS, () => {
      return (this.#load?.tally.refused ?? 0) > refused;
    });
    await sleep(FULL_SECONDS * 1000 * this.#random.next());
    if (kills) await this.#restart(true);
    this.#disk.giveRoom();
    const { acknowledged } = this.#target.book;
    await this.#until("plants are stored again", HEAL_DEADLINE_MS, () => {
      return this.#target.book.acknowledged > acknowledged + 100;
    });
    this.#fullDisks++;
  }

  /** Checks that a new token is accepted, and that the old one is refused once it is revoked. */
  async #changeToken(): Promise<void> {
    const before = this.#target.token;
    const name = `token-${++this.#tokens}`;
    const token = await createToken(this.#folder, { name, scopes: SCOPES });
    await this.#until("the new token is accepted", TOKEN_DEADLINE_MS, async () => {
      return (await this.#statusWith(token)) !== 401;
    });
    this.#target.token = token;
    await sleep(500); // requests with the old token are answered
    await revokeToken(this.#folder, `token-${this.#tokens - 1}`);
    await this.#until("the old token is refused", TOKEN_DEADLINE_MS, async () => {
      return (await this.#statusWith(before)) === 401;
    });
  }

  async #statusWith(token: string): Promise<number | undefined> {
    const connection = await Connection.open(this.#target.port);
    const answer = await connection?.post(token, "{}");
    connection?.close();
    return answer?.status;
  }

  async #until(
    what: string,
    deadlineMs: number,
    condition: () => boolean | Promise<boolean>,
  ): Promise<void> {
    const deadline = performance.now() + deadlineMs;
    while (!(await condition())) {
      if (performance.now() > deadline) throw new Error(`not within ${deadlineMs} ms: ${what}`);
      await sleep(20);
    }
  }

  async #finish(): Promise<void> {
    const growth = lateGrowth(this.#samples);
    await this.#endLoad();
    await this.#stop();
    await this.#startAndCheck();
    const mib = (growth.bytes / 2 ** 20).toFixed(1);
    this.#options.print(
      `the last process, third quarter to last: ${mib} MiB for ${Math.round(growth.plants)} new plants`,
    );
    if (!growth.isLevel) this.totals.faults.push(`memory grew by ${mib} MiB`);
    const { descriptors } = growth;
    this.#options.print(`the same, open descriptors: ${descriptors} more`);
    if (descriptors > DESCRIPTORS_SLACK) {
      this.totals.faults.push(`${descriptors} descriptors stay open`);
    }
  }

  async #startAndCheck(): Promise<void> {
    await this.#start();
    await this.#endLoad();
    const { book } = this.#target;
    this.totals.faults.push(...(await replay(this.#target, book.sample(REPLAYS, this.#random))));
    await this.#server?.stop();
    this.totals.acknowledged = book.acknowledged;
    addFindings(this.totals, checkLog(join(this.#folder, "plants.jsonl"), book));
  }

  #measure(): void {
    const pid = this.#server?.run.pid ?? 0;
    const seconds = this.#elapsed();
    const sample = sampleOf(pid);
    if (sample === undefined) return; // between an end and the next start
    this.#samples.push({ ...sample, seconds, plants: this.#target.book.taken });
    if (seconds >= this.#nextPrint) {
      this.#nextPrint += PRINT_EVERY_SECONDS;
      this.#print(sample);
    }
  }

  #print({ residentBytes, descriptors }: Pick<Sample, "residentBytes" | "descriptors">): void {
    const minutes = Math.round(this.#elapsed() / 60);
    const resident = (residentBytes / 2 ** 20).toFixed(0);
    const { acknowledged } = this.#target.book;
    this.#options.print(
      `minute ${minutes}: ${acknowledged} plants acknowledged, ${resident} MiB, ` +
        `${descriptors} descriptors; so far ${this.totals.kills} kills, ${this.#stops} stops, ` +
        `${this.#fullDisks} full disks, ${this.#tokens} token changes, ` +
        `${this.#refused} answers 503, ${this.totals.faults.length} faults`,
    );
  }

  #elapsed(): number {
    return (performance.now() - this.totals.startedAt) / 1000;
  }
}

/** `undefined` if there is no such process. */
function sampleOf(pid: number): Pick<Sample, "residentBytes" | "descriptors"> | undefined {
  try {
    return { residentBytes: residentBytes(pid), descriptors: openDescriptors(pid) };
  } catch {
    return undefined;
  }
}
