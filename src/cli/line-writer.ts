/**
 * Writes the lines of a log to standard error without waiting for its reader or its disk, except at
 * the end of the process, which waits up to a second for a reader.
 *
 * Invariants. Memory is bounded: lines beyond the bound are dropped whole, and a later line reports
 * how many. Lines are written in order and whole, unless the reader takes no more. A file blocks its
 * writer, so a thread writes to it; a write that the thread has at the end may land after the last
 * lines.
 */
import { fstatSync, write, writeSync } from "node:fs";

/** Lines that wait for a reader, at most: about five thousand requests. */
const WAITING_BYTES_MAX = 1024 * 1024;
/** Lines leave this often: each write wakes the reader (measured, see docs/speed.md). */
const INTERVAL_MS = 10;
/** Many lines are made at a time, because that is faster (see docs/speed.md). */
const EVENTS_MAX = 256;
/** How long the end of the process waits for a slow reader. */
const END_MS = 1000;

/**
 * Makes the line of an event, without a line feed. Must not throw, and logs nothing itself.
 *
 * @param time milliseconds since 1970.
 */
export type Format<Event> = (event: Event, time: number) => string;

/** Never changes: waiting for it is sleeping. */
const NEVER = new Int32Array(new SharedArrayBuffer(4));

export class LineWriter<Event> {
  readonly #fd: number;
  readonly #format: Format<Event>;
  readonly #describeLoss: (lines: number) => Event;
  readonly #isFile: boolean;
  /** Events whose lines are not yet made; they come after `#lines`. */
  #events: { readonly event: Event; readonly time: number }[] = [];
  #lines = "";
  #lineBytes = 0;
  /** What is being written, or is left of a write; it comes before `#lines`. */
  #rest: Buffer = Buffer.alloc(0);
  #dropped = 0;
  #isScheduled = false;
  /** Whether a thread is writing the rest. */
  #isWriting = false;

  /**
   * @param fd a file, or a descriptor that does not block (see `openStandardError`).
   * @param describeLoss makes the event of dropped lines.
   */
  constructor(fd: number, format: Format<Event>, describeLoss: (lines: number) => Event) {
    this.#fd = fd;
    this.#format = format;
    this.#describeLoss = describeLoss;
    this.#isFile = fstatSync(fd).isFile();
  }

  /** Takes an event; its line is made and written later, with the time of this call. */
  write(event: Event): void {
    this.#events.push({ event, time: Date.now() });
    if (this.#events.length === EVENTS_MAX) this.#makeLines();
    this.#schedule();
  }

  /** Writes everything at the end of the process. */
  end(): void {
    if (this.#isWriting) this.#rest = Buffer.alloc(0); // Node waits for its threads before it ends
    this.#makeLines();
    const deadline = performance.now() + END_MS;
    while (this.#flush() === "EAGAIN" && performance.now() < deadline) {
      Atomics.wait(NEVER, 0, 0, INTERVAL_MS);
    }
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setTimeout(() => {
      this.#isScheduled = false;
      this.#makeLines();
      if (this.#isFile) this.#flushFile();
      else this.#flush();
      if (this.#rest.length > 0) this.#schedule();
    }, INTERVAL_MS).unref();
  }

  #makeLines(): void {
    const events = this.#events;
    this.#events = [];
    let isBlocked = this.#isFile; // flushes at most once a call, and never to a file, which blocks
    for (const { event, time } of events) {
      const line = `${this.#format(event, time)}\n`;
      const bytes = Buffer.byteLength(line);
      if (!this.#hasRoom(bytes) && !isBlocked) isBlocked = this.#flush() !== undefined;
      if (this.#hasRoom(bytes)) {
        this.#lines += line;
        this.#lineBytes += bytes;
      } else this.#dropped++;
    }
  }

  #hasRoom(bytes: number): boolean {
    return this.#rest.length + this.#lineBytes + bytes <= WAITING_BYTES_MAX;
  }

  /** Writes all lines; returns the code of the error if not all could be written. */
  #flush(): string | undefined {
    try {
      while (this.#takeLines()) {
        this.#rest = this.#rest.subarray(writeSync(this.#fd, this.#rest));
      }
      return undefined;
    } catch (error) {
      return (error as NodeJS.ErrnoException).code ?? "";
    }
  }

  #flushFile(): void {
    if (this.#isWriting || !this.#takeLines()) return;
    this.#isWriting = true;
    write(this.#fd, this.#rest, (error, bytes) => {
      this.#isWriting = false;
      // After an error, such as a full disk, the rest is written again.
      if (error === null) this.#rest = this.#rest.subarray(bytes);
    });
  }

  /** If there is no rest, makes the lines the rest; returns whether there is anything to write. */
  #takeLines(): boolean {
    if (this.#rest.length > 0) return true;
    if (this.#dropped > 0) {
      this.#lines += `${this.#format(this.#describeLoss(this.#dropped), Date.now())}\n`;
    }
    this.#rest = Buffer.from(this.#lines);
    this.#lines = "";
    this.#lineBytes = 0;
    this.#dropped = 0;
    return this.#rest.length > 0;
  }
}
