/**
 * The clock of a simulation: time goes on only from one event to the next.
 *
 * Invariants. There is one queue, ordered by due time, then by chance, then by number. Between two events every
 * microtask has run, as in Node's event loop. The end of a world discards its events: a dead program is never
 * called again.
 */
import type { Clock, Timer } from "../../src/core/services.ts";
import { lendBuffers, takeBuffersBack } from "./memory.ts";
import type { Random } from "./random.ts";

/** Taken before a guard forbids it. */
const nextTurn = setImmediate;
/** Runs all microtasks, in the middle of a turn. Node does not document it; without it each event takes a turn. */
const drain = (process as { _tickCallback?: () => void })._tickCallback?.bind(process);

/** How long a turn of the event loop takes. */
const TURN_MS = 0.01;

interface Event {
  readonly dueMs: number;
  readonly tie: number;
  readonly number: number;
  run: (() => void) | undefined;
}

/** Nothing is left that could settle what is waited for. */
export class StuckError extends Error {}

export class SimulatedClock implements Clock {
  /** How many events have run. */
  events = 0;
  readonly #random: Random;
  readonly #chance: Random;
  /** Sorted, the next one last. Some five wait, at most some dozens. */
  #queue: Event[] = [];
  /** Wall time minus monotonic time. */
  #offsetMs = Date.UTC(2027, 0, 1);
  #nowMs = 1000;
  #number = 0;

  constructor(random: Random) {
    this.#random = random.fork("clock");
    this.#chance = random.fork("ties");
  }

  steadyMs(): number {
    return this.#nowMs;
  }

  wallMs(): number {
    return Math.floor(this.#nowMs + this.#offsetMs);
  }

  /** Sets the wall clock forward or back; timers and the monotonic clock do not notice. */
  shiftWall(ms: number): void {
    this.#offsetMs += ms;
  }

  /** The process does not run for this long: whatever is due meanwhile is late. */
  freeze(ms: number): void {
    this.#nowMs += ms;
  }

  /** Runs something later. The same as a timer without what a timer returns. */
  after(ms: number, run: () => void): void {
    this.#add(ms, run);
  }

  #add(ms: number, run: () => void, tie = this.#chance.next()): Event {
    const event = { dueMs: this.#nowMs + ms, tie, number: ++this.#number, run };
    let at = this.#queue.length;
    while (at > 0 && isBefore(this.#queue[at - 1] as Event, event)) at--;
    this.#queue.splice(at, 0, event);
    return event;
  }

  setTimeout(run: () => void, ms: number): Timer {
    return this.#timer(run, ms, false);
  }

  #timer(run: () => void, ms: number, repeats: boolean): Timer {
    const schedule = (due: () => void) => this.#add(Math.max(1, ms), due);
    return new SimulatedTimer(schedule, run, repeats);
  }

  clearTimeout(timer: Timer | undefined): void {
    (timer as SimulatedTimer | undefined)?.clear();
  }

  setInterval(run: () => void, ms: number): Timer {
    return this.#timer(run, ms, true);
  }

  clearInterval(timer: Timer | undefined): void {
    this.clearTimeout(timer);
  }

  /** In order, and never in no time: a loop that waits for something by turns must not stop the clock. */
  setImmediate(run: () => void): void {
    this.#add(TURN_MS, run, 0);
  }

  randomBytes(count: number): Buffer {
    return this.#random.bytes(count);
  }

  /**
   * Runs events until the promise settles.
   *
   * @param eventsMax a greater number of events is a loop without an end.
   * @throws StuckError if no event is left, or there were too many; what the promise rejects with.
   */
  async run<T>(until: Promise<T>, eventsMax = 1_000_000): Promise<T> {
    let isSettled = false;
    const settle = () => {
      isSettled = true;
    };
    until.then(settle, settle);
    const last = this.events + eventsMax;
    await new Promise<void>((resolve, reject) => {
      const step = () => {
        lendBuffers(true);
        try {
          do {
            drain?.();
            if (isSettled) return resolve();
            if (!this.#runNext()) {
              // A promise may settle later in this turn, when it is run without `drain`.
              return nextTurn(() =>
                isSettled ? resolve() : reject(new StuckError("no event is left")),
              );
            }
            if (this.events > last) throw new StuckError(`more than ${eventsMax} events`);
          } while (drain !== undefined);
          nextTurn(step);
        } catch (error) {
          reject(error as Error);
        } finally {
          lendBuffers(false);
        }
      };
      nextTurn(step);
    });
    return until;
  }

  /** Returns false if there is none. */
  #runNext(): boolean {
    for (;;) {
      const event = this.#queue.pop();
      if (event === undefined) return false;
      if (event.run === undefined) continue; // it was cleared
      this.#nowMs = Math.max(this.#nowMs, event.dueMs);
      this.events++;
      event.run();
      return true;
    }
  }

  /** Lets the microtasks of a dead world run out, and discards its events. */
  async endWorld(): Promise<void> {
    for (let turns = 0; turns < 2; turns++) await new Promise<void>((resolve) => nextTurn(resolve));
    this.#queue = [];
    takeBuffersBack();
  }
}

class SimulatedTimer implements Timer {
  readonly #schedule: (due: () => void) => Event;
  readonly #run: () => void;
  readonly #repeats: boolean;
  #event: Event | undefined;

  constructor(schedule: (due: () => void) => Event, run: () => void, repeats: boolean) {
    this.#schedule = schedule;
    this.#run = run;
    this.#repeats = repeats;
    this.#start();
  }

  #start(): void {
    this.#event = this.#schedule(() => {
      this.#event = undefined;
      if (this.#repeats) this.#start();
      this.#run();
    });
  }

  clear(): void {
    if (this.#event !== undefined) this.#event.run = undefined;
    this.#event = undefined;
  }

  refresh(): this {
    this.clear();
    this.#start();
    return this;
  }

  unref(): this {
    return this;
  }
}

function isBefore(one: Event, other: Event): boolean {
  if (one.dueMs !== other.dueMs) return one.dueMs < other.dueMs;
  return one.tie === other.tie ? one.number < other.number : one.tie < other.tie;
}
