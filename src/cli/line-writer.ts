/**
 * Lines to standard error that never wait for their reader or their disk, except at the end of the
 * process, which waits for a reader by a second at most.
 *
 * Invariants. Lines that a reader does not take stay here; a file takes them by plain writes of a
 * thread, one at a time, never a sync. Memory is bounded: beyond the bound whole lines are dropped,
 * and a later line says how many. Lines are written whole and in their order, with few writes; only
 * a reader that leaves in the middle of a line, or one that takes no more at the end, gets a part of
 * one. At the end, what a thread has may come after what is left, and is not tried again. Keeps no
 * process alive, except while a file takes what it was given.
 */
import { fstatSync, write, writeSync } from "node:fs";

/** Lines that wait for a reader, at most: some five thousand requests. */
const WAITING_BYTES_MAX = 1024 * 1024;
/**
 * Lines that come sooner after a write go out together. A write wakes its reader: one in each turn
 * of the event loop took a tenth of a create (64 connections).
 */
const PAUSE_MS = 20;
/**
 * Lines that wait to be made together. Between two answers a line is made by code that every cache
 * has lost, which costs several times as much as in a loop of many (test/bench/results).
 */
const UNMADE_MAX = 256;
/** Soon enough for a reader that is merely slow: a pipe holds 64 KiB. */
const BLOCKED_RETRY_MS = 10;
/** While lines are about to be dropped: a reader that keeps up has taken some by then. */
const FULL_RETRY_MS = 1;
/** A disk that is full, or a reader that has gone, does not change so fast. */
const FAULT_RETRY_MS = 1000;
/** How long the end of the process waits for a reader that is slow: it may have stopped. */
const END_MS = 1000;

/** How the lines of events look. */
export interface LineFormat<Event> {
  /**
   * Returns the line of an event, without a line feed. Logs nothing itself.
   *
   * @param time milliseconds since 1970.
   * @throws anything: the line of `fault` takes its place. For `loss` and `fault` it must not throw.
   */
  line(event: Event, time: number): string;
  /** So many lines were dropped, because nobody took them. */
  loss(lines: number): Event;
  /** Replaces an event whose line could not be made. */
  fault(fault: unknown): Event;
}

const NOTHING: Buffer = Buffer.alloc(0);
/** Never changes: to wait for that is to sleep. */
const NEVER = new Int32Array(new SharedArrayBuffer(4));

export class LineWriter<Event> {
  readonly #fd: number;
  readonly #format: LineFormat<Event>;
  /** Events whose lines are still to be made; they come after those that are. */
  #unmade: { readonly event: Event; readonly time: number }[] = [];
  #lines = "";
  #bytes = 0;
  /** What is left of a write that the reader did not take whole. It goes before the lines. */
  #rest = NOTHING;
  #dropped = 0;
  #isScheduled = false;
  /** Before which no line goes out by itself. */
  #pauseUntil = 0;
  /** Before which a line that finds no room need not try again. */
  #retryAt = 0;
  /** Whether a thread is to write: a file blocks its writer. */
  #isAside: boolean;
  /** A thread has the rest. */
  #isWriting = false;

  /** @param fd a file, or a descriptor that does not block (see `openStandardError`). */
  constructor(fd: number, format: LineFormat<Event>) {
    this.#fd = fd;
    this.#format = format;
    this.#isAside = fstatSync(fd).isFile();
  }

  /** Takes an event, whose line is made later, together with others. */
  write(event: Event): void {
    this.#unmade.push({ event, time: Date.now() });
    if (this.#unmade.length === UNMADE_MAX) this.#makeLines();
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const pauseMs = this.#pauseUntil - performance.now();
    if (pauseMs <= 0) setImmediate(() => this.#flushScheduled());
    else setTimeout(() => this.#flushScheduled(), pauseMs).unref();
  }

  /** Writes all there is, at the end of the process: for a while it waits for a slow reader. */
  end(): void {
    this.#isAside = false;
    if (this.#isWriting) this.#rest = NOTHING; // Node waits for its threads before it ends
    const deadline = performance.now() + END_MS;
    while (this.#flush() === BLOCKED_RETRY_MS && performance.now() < deadline) {
      Atomics.wait(NEVER, 0, 0, BLOCKED_RETRY_MS);
    }
  }

  #flushScheduled(): void {
    const retryMs = this.#flush();
    this.#pauseUntil = performance.now() + PAUSE_MS;
    if (retryMs === undefined) this.#isScheduled = false;
    else setTimeout(() => this.#flushScheduled(), retryMs).unref();
  }

  /** Writes what there is; returns when to try again, if not everything was taken. */
  #flush(): number | undefined {
    this.#makeLines();
    return this.#attempt();
  }

  #makeLines(): void {
    const events = this.#unmade;
    this.#unmade = [];
    for (const { event, time } of events) {
      const line = this.#lineOf(event, time);
      if (this.#append(line)) continue;
      const isDue = performance.now() >= this.#retryAt;
      if (isDue) this.#attempt();
      if (!isDue || !this.#append(line)) this.#dropped++;
    }
  }

  #lineOf(event: Event, time: number): string {
    try {
      return this.#format.line(event, time);
    } catch (fault) {
      return this.#format.line(this.#format.fault(fault), time);
    }
  }

  /** Whether there was room. */
  #append(line: string): boolean {
    const bytes = this.#bytes + Buffer.byteLength(line) + 1;
    if (this.#rest.length + bytes > WAITING_BYTES_MAX) return false;
    this.#lines += `${line}\n`;
    this.#bytes = bytes;
    return true;
  }

  /** The same as `flush`, without the lines that are still to be made. */
  #attempt(): number | undefined {
    while (this.#takeRest()) {
      if (this.#isAside) return this.#writeAside();
      try {
        this.#rest = this.#rest.subarray(writeSync(this.#fd, this.#rest));
      } catch (error) {
        const isBlocked = (error as NodeJS.ErrnoException).code === "EAGAIN";
        this.#retryAt = performance.now() + (isBlocked ? FULL_RETRY_MS : FAULT_RETRY_MS);
        return isBlocked ? BLOCKED_RETRY_MS : FAULT_RETRY_MS;
      }
    }
    return undefined;
  }

  #writeAside(): number {
    if (this.#isWriting || performance.now() < this.#retryAt) return PAUSE_MS;
    this.#isWriting = true;
    write(this.#fd, this.#rest, (error, bytes) => {
      this.#isWriting = false;
      if (error === null) this.#rest = this.#rest.subarray(bytes);
      else this.#retryAt = performance.now() + FAULT_RETRY_MS;
    });
    return PAUSE_MS;
  }

  /** Whether there is something to write. */
  #takeRest(): boolean {
    if (this.#rest.length > 0) return true;
    // A loss that finds no room itself is reported the next time.
    if (
      this.#dropped > 0 &&
      this.#append(this.#lineOf(this.#format.loss(this.#dropped), Date.now()))
    ) {
      this.#dropped = 0;
    }
    this.#rest = Buffer.from(this.#lines);
    this.#lines = "";
    this.#bytes = 0;
    return this.#rest.length > 0;
  }
}
