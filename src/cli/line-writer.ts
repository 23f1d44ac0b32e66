/**
 * Lines to standard error that never make anybody wait for their reader or
 * their disk, but for the end of the process, for a reader by a second at most.
 *
 * Invariants. A reader that is slow or has stopped leaves the lines here; a
 * file takes them by plain writes of a thread, one at a time, never a sync.
 * Memory is bounded: beyond the bound, where nothing more is taken, whole lines
 * are dropped, and a later line says how many. What is written is whole lines
 * in their order, with few writes: at once where there was none for a while;
 * only a reader that leaves in the middle of a line, or a reader or disk that
 * takes no more at the end, gets a part of one. At the end what a thread has may
 * come behind what is left, and is not tried again. Holds no process, but while
 * a file takes what it was given.
 */
import { fstatSync, write, writeSync } from "node:fs";

/** Made lines that wait for a reader at most: some five thousand requests. */
const WAITING_BYTES_MAX = 1024 * 1024;
/**
 * Lines that come sooner behind a write go out together. A write wakes its reader: one in
 * each turn of the event loop took a tenth of a create (64 connections).
 */
const PAUSE_MS = 20;
/**
 * Lines that wait to be made together. Between two answers a line is made by code that every
 * cache has lost, which costs several times as much as in a loop of many (test/bench/results).
 * What they hold is bounded by their number, and a path by what a head may be.
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
  /** Stands in the place of a line that could not be made. */
  fault(fault: unknown): Event;
}

export class LineWriter<Event> {
  readonly #fd: number;
  readonly #format: LineFormat<Event>;
  /** Events whose lines are still to be made; they come behind all that is filled in. */
  #unmade: Event[] = [];
  readonly #unmadeAt = new Float64Array(UNMADE_MAX);
  /** What `performance.now()` counts from, in milliseconds since 1970, as the clock was last seen. */
  #origin = 0;
  /** When that was, as `performance.now()` tells time. */
  #seenAt = 0;
  #filling = Buffer.allocUnsafeSlow(WAITING_BYTES_MAX);
  #filled = 0;
  /** What is left of a write that the reader did not take whole. */
  #rest = NOTHING;
  /** What the rest lies in; the next to be filled. */
  #resting = Buffer.allocUnsafeSlow(WAITING_BYTES_MAX);
  #dropped = 0;
  #isScheduled = false;
  /** Before which no line goes out by itself. */
  #pauseUntil = 0;
  /** Before which a line that finds no room need not try again. */
  #retryAt = 0;
  /** Whether a thread is to write: a file blocks whoever writes to it. */
  #isAside: boolean;
  /** A thread has the rest. */
  #isWriting = false;

  /** @param fd a file, or a descriptor that does not block (see `openStandardError`). */
  constructor(fd: number, format: LineFormat<Event>) {
    this.#fd = fd;
    this.#format = format;
    this.#isAside = fstatSync(fd).isFile();
  }

  /** Tells of an event. */
  write(event: Event): void {
    this.writeLater(event, performance.now());
    this.#makeLines();
  }

  /**
   * The same with a line that is made later, together with others.
   *
   * @param at when the event was, as `performance.now()` tells time: whoever knows it spares a look
   * at the clock, which was a sixth of what a log takes of the processor. The line has the time of
   * the clock as that is when it is made.
   */
  writeLater(event: Event, at: number): void {
    this.#unmadeAt[this.#unmade.length] = at;
    this.#unmade.push(event);
    if (this.#unmade.length === UNMADE_MAX) this.#makeLines();
    this.#schedule();
  }

  /** Writes all there is, at the end of the process: for a while it waits for a slow reader. */
  end(): void {
    this.#isAside = false;
    // Node waits for its threads before it ends: the rest and the memory it lies in are theirs.
    if (this.#isWriting) [this.#rest, this.#resting] = [NOTHING, Buffer.alloc(WAITING_BYTES_MAX)];
    const deadline = performance.now() + END_MS;
    while (this.#flush() === BLOCKED_RETRY_MS && performance.now() < deadline) {
      Atomics.wait(NEVER, 0, 0, BLOCKED_RETRY_MS);
    }
  }

  #makeLines(): void {
    const events = this.#unmade;
    if (events.length === 0) return;
    this.#unmade = [];
    this.#setOrigin();
    for (let each = 0; each < events.length; each++) {
      this.#make(events[each] as Event, this.#timeOf(this.#unmadeAt[each] as number));
    }
  }

  /**
   * The clock tells whole milliseconds, and time passes from one look to the next: what may be right
   * stays, so that no event is before the last one unless the clock was set back. (A loss has the
   * time at which it is told, in the middle of older lines.)
   */
  #setOrigin(): void {
    const before = performance.now();
    const date = Date.now();
    this.#seenAt = performance.now();
    const least = date - this.#seenAt;
    const most = date + 1 - before;
    this.#origin = Math.min(Math.max(this.#origin, least), most);
  }

  /** In milliseconds since 1970; that of now for a time that cannot be, which may be the fault. */
  #timeOf(at: number): number {
    return this.#origin + (at >= 0 && at <= this.#seenAt ? at : this.#seenAt);
  }

  /** Adds the line, or what tells why there is none. */
  #make(event: Event, time: number): void {
    try {
      this.#add(event, time);
    } catch (fault) {
      this.#add(this.#format.fault(fault), time);
    }
  }

  #add(event: Event, time: number): void {
    if (this.#append(event, time)) return;
    if (!this.#takesMore() || !this.#append(event, time)) this.#dropped++;
  }

  /** Whether there was room. */
  #append(event: Event, time: number): boolean {
    const end = WAITING_BYTES_MAX - this.#rest.length;
    const line = `${this.#format.line(event, time)}\n`;
    if (this.#filled + Buffer.byteLength(line) > end) return false;
    this.#filled += this.#filling.write(line, this.#filled);
    return true;
  }

  /** Has the reader take some, if it is worth asking. */
  #takesMore(): boolean {
    if (performance.now() < this.#retryAt) return false;
    this.#attempt();
    return true;
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const pauseMs = this.#pauseUntil - performance.now();
    if (pauseMs <= 0) setImmediate(() => this.#flushScheduled());
    else setTimeout(() => this.#flushScheduled(), pauseMs).unref();
  }

  #flushScheduled(): void {
    const retryMs = this.#flush();
    this.#pauseUntil = performance.now() + PAUSE_MS;
    if (retryMs === undefined) this.#isScheduled = false;
    else setTimeout(() => this.#flushScheduled(), retryMs).unref();
  }

  /** Writes what there is; returns the same as an attempt. */
  #flush(): number | undefined {
    this.#makeLines();
    return this.#attempt();
  }

  /** Returns when to try again, if not everything was taken. */
  #attempt(): number | undefined {
    while (this.#take()) {
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
  #take(): boolean {
    if (this.#rest.length > 0) return true;
    // Where it finds no room it is told the next time.
    const loss = this.#dropped;
    if (loss > 0 && this.#append(this.#format.loss(loss), this.#origin + performance.now())) {
      this.#dropped = 0;
    }
    if (this.#filled === 0) return false;
    this.#rest = this.#filling.subarray(0, this.#filled);
    [this.#filling, this.#resting] = [this.#resting, this.#filling];
    this.#filled = 0;
    return true;
  }
}

const NOTHING: Buffer = Buffer.alloc(0);
/** Nobody changes it: to wait for that is to sleep. */
const NEVER = new Int32Array(new SharedArrayBuffer(4));
