/**
 * The clock of a simulation: time goes on only from one event to the next.
 *
 * Invariants. There is one queue, ordered by due time, which chance shifts by less than a nanosecond. Between two events every
 * microtask has run, as in Node's event loop. The end of a process discards its events: the dead are never called.
 */
import type { Clock, Timer } from "../../src/core/services.ts";
import type { Random } from "./random.ts";

/** Runs all microtasks, in the middle of a turn. Node does not document it. */
const drain = (process as unknown as { _tickCallback(): void })._tickCallback.bind(process);

const TURN_MS = 0.01;
/** What else is due at the same time may come before. */
const TIE_MS = 1e-6;
/** More events in one run are a loop without an end. */
const EVENTS_MAX = 200_000;

interface Event {
  readonly dueMs: number;
  run: (() => void) | undefined;
}

export class SimulatedClock implements Clock {
  readonly #random: Random;
  readonly #ties: Random;
  /** Sorted, the next one last. Some five wait, at most some dozens. */
  #queue: Event[] = [];
  nowMs = 1000;
  /** Wall time minus monotonic time. */
  offsetMs = Date.UTC(2027, 0, 1);

  constructor(random: Random) {
    this.#random = random.fork("clock");
    this.#ties = random.fork("ties");
  }

  monotonicMs(): number {
    return this.nowMs;
  }

  wallMs(): number {
    return Math.floor(this.nowMs + this.offsetMs);
  }

  rest(ms: number): Promise<void> {
    return new Promise((resolve) => this.#add(ms + this.#ties.next() * TIE_MS, resolve));
  }

  #add(ms: number, run: () => void): Event {
    const event: Event = { dueMs: this.nowMs + ms, run };
    let at = this.#queue.length;
    while (at > 0 && (this.#queue[at - 1] as Event).dueMs <= event.dueMs) at--;
    this.#queue.splice(at, 0, event);
    return event;
  }

  setTimeout(run: () => void, ms: number) {
    return this.#timer(run, ms, false);
  }

  setInterval(run: () => void, ms: number) {
    return this.#timer(run, ms, true);
  }

  #timer(run: () => void, ms: number, repeats: boolean) {
    const start = () =>
      this.#add(Math.max(1, ms) + this.#ties.next() * TIE_MS, () => {
        if (repeats) timer.event = start();
        run();
      });
    const timer = { event: start(), unref() {} };
    return timer;
  }

  clearTimeout(timer: Timer | undefined): void {
    if (timer !== undefined)
      (timer as ReturnType<SimulatedClock["setTimeout"]>).event.run = undefined;
  }

  clearInterval(timer: Timer | undefined): void {
    this.clearTimeout(timer);
  }

  /** In order, and never in no time: a loop that waits for something by turns must not stop the clock. */
  turn(): Promise<void> {
    return new Promise((resolve) => this.#add(TURN_MS, resolve));
  }

  randomBytes(count: number): Buffer {
    return this.#random.bytes(count);
  }

  /** Runs events until the promise settles, and discards the others. @throws Error if it does not. */
  async run<T>(until: Promise<T>): Promise<T> {
    let isSettled = false;
    const settle = () => {
      isSettled = true;
    };
    until.then(settle, settle);
    const runAll = () => {
      for (let left = EVENTS_MAX; ; left--) {
        drain();
        if (isSettled) return;
        const event = this.#queue.pop();
        if (event === undefined || left === 0) throw new Error("the work does not end");
        this.nowMs = Math.max(this.nowMs, event.dueMs);
        event.run?.();
      }
    };
    // In a turn of its own: microtasks cannot be run from within one.
    await new Promise<void>((resolve, reject) => {
      setImmediate(() => {
        try {
          resolve(runAll());
        } catch (error) {
          reject(error);
        }
      });
    });
    this.#queue = [];
    return until;
  }
}
