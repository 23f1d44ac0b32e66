/**
 * The clock of a simulation: time goes on only from one event to the next.
 *
 * Invariants. There is one queue, ordered by due time, then by chance, then by number. Between two events every
 * microtask has run, as in Node's event loop. The end of a world discards its events: a dead program is never
 * called again.
 */
import type { Clock, Timer } from "../../src/clock.ts";
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
  readonly #queue = new EventQueue();
  /** Wall time minus monotonic time. */
  #offsetMs = Date.UTC(2027, 0, 1);
  #nowMs = 1000;
  #world = 0;
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
    this.#queue.push(event);
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
      const event = this.#queue.shift();
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
    this.#queue.clear();
    takeBuffersBack();
    this.#world++;
  }

  /** How many worlds have ended. */
  get world(): number {
    return this.#world;
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

/** A binary heap. */
class EventQueue {
  #events: Event[] = [];

  push(event: Event): void {
    const events = this.#events;
    let at = events.length;
    events.push(event);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(event, events[parent] as Event)) break;
      events[at] = events[parent] as Event;
      at = parent;
    }
    events[at] = event;
  }

  shift(): Event | undefined {
    const events = this.#events;
    const first = events[0];
    const last = events.pop();
    if (first === undefined || last === undefined || events.length === 0) return first;
    let at = 0;
    for (;;) {
      let child = 2 * at + 1;
      if (child >= events.length) break;
      const right = events[child + 1];
      if (right !== undefined && isBefore(right, events[child] as Event)) child++;
      if (!isBefore(events[child] as Event, last)) break;
      events[at] = events[child] as Event;
      at = child;
    }
    events[at] = last;
    return first;
  }

  clear(): void {
    this.#events = [];
  }
}

function isBefore(one: Event, other: Event): boolean {
  if (one.dueMs !== other.dueMs) return one.dueMs < other.dueMs;
  return one.tie === other.tie ? one.number < other.number : one.tie < other.tie;
}
