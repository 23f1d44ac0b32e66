/**
 * Reads pieces from all over a file, in a thread of its own.
 *
 * Node's pool of threads takes one read at a time, so on one core every read of 2 µs changes threads
 * twice; one list for one thread makes 1.2 times as many reads (measured: docs/speed.md). No
 * read depends on the thread: the caller reads the pieces that are left. The thread has 5 µs per piece
 * for a list; the rest is left to the pool, whose threads read pieces from a disk faster. The first
 * list starts the thread. The pool reads that list, and every other until the thread runs. The thread
 * keeps the process alive only while it reads.
 */
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { publishWarning } from "../core/channels.ts";

/** A part of a buffer, and where in a file its bytes are. Pieces follow each other in the buffer. */
export interface FilePiece {
  readonly start: number;
  readonly bytes: number;
  readonly position: number;
}

export interface ReadPieces {
  /** Its bytes are valid until the next list is read. */
  readonly buffer: Buffer;
  /** How many pieces were read: the first ones. */
  readonly count: number;
}

/**
 * A piece from the page cache takes 2 µs, one from a disk 100. With 10 µs, reads from a disk are 0.95 as
 * fast as with 5; with 2.5, those from the page cache 0.8 (measured: bench:cold-reads).
 */
const PIECE_LIMIT_MS = 0.005;

/** As text, because the executable and bundles of users are one file. */
const PROGRAM = `
const fs = require("node:fs");
const { parentPort } = require("node:worker_threads");
parentPort.on("message", ({ fd, shared, limitMs, numbers }) => {
  const end = performance.now() + limitMs;
  let count = 0;
  try {
    for (let at = 0; at < numbers.length && performance.now() < end; at += 3, count++) {
      const bytes = numbers[at + 1];
      if (fs.readSync(fd, shared, numbers[at], bytes, numbers[at + 2]) < bytes) break;
    }
  } catch {}
  parentPort.postMessage(count);
});`;

export class PieceReader {
  #state: "new" | "starting" | "running" | "ended" = "new";
  #thread: Worker | undefined;
  /** One buffer for all lists: one for each would keep 15 MiB until the garbage collector frees it (measured). */
  #shared: Buffer = Buffer.alloc(0);
  #resolve: (count: number | undefined) => void = () => {};

  /**
   * Reads one list of pieces. Call it again only after the promise has settled.
   *
   * @param fd must stay open meanwhile.
   * @param limitMs after how many milliseconds the thread leaves the rest to the caller.
   * @returns `undefined` if no thread is running, or there is no memory for the buffer.
   */
  async read(
    fd: number,
    pieces: readonly FilePiece[],
    limitMs = pieces.length * PIECE_LIMIT_MS,
  ): Promise<ReadPieces | undefined> {
    if (this.#state === "new") this.#start();
    const thread = this.#thread;
    if (this.#state !== "running" || thread === undefined) return undefined;
    const size = sizeOf(pieces);
    const shared = this.#share(size);
    if (shared === undefined) return undefined;
    const numbers = Float64Array.from(
      pieces.flatMap(({ start, bytes, position }) => [start, bytes, position]),
    );
    return new Promise((resolve) => {
      this.#resolve = (count) => {
        thread.unref();
        resolve(count === undefined ? undefined : { buffer: shared.subarray(0, size), count });
      };
      thread.ref();
      thread.postMessage({ fd, shared, limitMs, numbers }, [numbers.buffer]);
    });
  }

  #share(size: number): Buffer | undefined {
    try {
      if (size > this.#shared.length) this.#shared = Buffer.from(new SharedArrayBuffer(2 * size));
      return this.#shared;
    } catch {
      return undefined; // RangeError: no memory
    }
  }

  #start(): void {
    this.#state = "ended";
    if (isMemoryLimited()) return;
    try {
      const thread = new Worker(PROGRAM, {
        eval: true,
        // The options of this process may load other programs.
        execArgv: [],
        env: {},
        resourceLimits: { maxYoungGenerationSizeMb: 2 }, // it makes little garbage
      });
      this.#state = "starting";
      this.#thread = thread;
      this.#follow(thread);
    } catch (cause) {
      warn("cannot be started; check the limit of processes", cause);
    }
  }

  #follow(thread: Worker): void {
    thread.once("online", () => {
      if (this.#state === "starting") this.#state = "running";
    });
    thread.on("message", (count: number) => this.#resolve(count));
    let cause: unknown;
    thread.on("error", (error) => {
      cause = error; // "exit" follows
    });
    thread.once("exit", () => {
      if (this.#state !== "ended") warn("has ended", cause);
      this.#state = "ended";
      this.#resolve(undefined);
    });
    thread.unref(); // last: the listener of messages would undo it
  }

  async close(): Promise<void> {
    this.#state = "ended";
    await this.#thread?.terminate();
  }
}

function warn(what: string, cause: unknown): void {
  publishWarning(
    `Reads of older plants are slower until the next start: their thread ${what}`,
    cause,
  );
}

/** Whether there is a limit (`ulimit -v`, `-d`): V8 ends the process if a thread finds no room below it. */
function isMemoryLimited(): boolean {
  try {
    return /^Max (address space|data size) +\d/m.test(readFileSync("/proc/self/limits", "latin1"));
  } catch {
    return false; // only Linux has the file
  }
}

/** How many bytes a buffer for these pieces has. */
export function sizeOf(pieces: readonly FilePiece[]): number {
  const { start = 0, bytes = 0 } = pieces.at(-1) ?? {};
  return start + bytes;
}
