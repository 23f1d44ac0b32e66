/**
 * Reads pieces from all over a file, in a thread of its own.
 *
 * Node's pool of threads takes one read at a time, so on one core every read of 2 µs changes threads
 * twice; one list for one thread makes 1.3 to 1.4 times as many repeats (measured: docs/speed.md). The
 * thread only ever helps: what it has not read, its caller reads without it. After 10 ms it leaves the
 * rest of a list to the pool: pieces that come from a disk are read faster by several threads. It
 * starts with the first list, and keeps the process alive only while it reads.
 */
import { readFileSync } from "node:fs";
import { Worker } from "node:worker_threads";

/** A part of a buffer, and where in a file its bytes are. Pieces follow each other in the buffer. */
export interface FilePiece {
  readonly start: number;
  readonly bytes: number;
  readonly position: number;
}

export interface ReadPieces {
  /** What it holds is valid until the next list is read. */
  readonly buffer: Buffer;
  /** How many pieces were read: the first ones. */
  readonly count: number;
}

/** Far more than a list from the page cache takes. */
const LIMIT_MS = 10;

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
  #thread: Worker | undefined;
  /** The thread has ended, or cannot be started. */
  #isUnavailable = false;
  /** One for all lists: one for each would keep 15 MiB until the garbage collector frees it (measured). */
  #shared: Buffer = Buffer.alloc(0);
  #resolve: (count: number | undefined) => void = () => {};

  /**
   * Reads one list of pieces; call it again when the promise has settled. It never rejects.
   *
   * @param fd must stay open meanwhile.
   * @param limitMs after which the rest is left out.
   * @returns `undefined` if there is no thread.
   */
  read(
    fd: number,
    pieces: readonly FilePiece[],
    limitMs = LIMIT_MS,
  ): Promise<ReadPieces | undefined> {
    const size = sizeOf(pieces);
    const thread = this.#prepare(size);
    if (thread === undefined) return Promise.resolve(undefined);
    const shared = this.#shared;
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

  /** The thread, with room for so many bytes. */
  #prepare(size: number): Worker | undefined {
    if (this.#isUnavailable) return undefined;
    try {
      if (size > this.#shared.length) this.#shared = Buffer.from(new SharedArrayBuffer(2 * size));
      this.#thread ??= this.#start();
      return this.#thread;
    } catch {
      this.#isUnavailable = true; // no memory, or a limit of processes
      return undefined;
    }
  }

  /** @throws Error if no thread can be started. */
  #start(): Worker {
    if (isAddressSpaceLimited()) throw new Error("the address space is limited");
    const thread = new Worker(PROGRAM, {
      eval: true,
      // The options of this process may load other programs.
      execArgv: [],
      env: {},
      resourceLimits: { maxYoungGenerationSizeMb: 2 }, // it makes little garbage
    });
    thread.on("message", (count: number) => this.#resolve(count));
    thread.on("error", () => {}); // "exit" follows
    thread.on("exit", () => {
      this.#isUnavailable = true;
      this.#resolve(undefined);
    });
    return thread;
  }

  async close(): Promise<void> {
    this.#isUnavailable = true;
    await this.#thread?.terminate();
  }
}

/** Whether there is a limit (`ulimit -v`): V8 ends the process if a thread finds no room below it. */
function isAddressSpaceLimited(): boolean {
  try {
    return !/^Max address space +unlimited/m.test(readFileSync("/proc/self/limits", "latin1"));
  } catch {
    return false; // only Linux has the file
  }
}

/** How many bytes a buffer for these pieces has. */
export function sizeOf(pieces: readonly FilePiece[]): number {
  const { start = 0, bytes = 0 } = pieces.at(-1) ?? {};
  return start + bytes;
}
