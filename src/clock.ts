/**
 * The port to time and chance: clocks, timers, turns of the event loop, random bytes; waits that a signal ends.
 *
 * Invariants. Timers and the monotonic clock are those that Node had when this file was loaded: the fake
 * timers of an embedder's test, enabled later, do not stop a store. `Date` is asked each time, so that such a
 * test can have tokens expire. The program uses one clock at a time; a test hands in a simulated one.
 */
import { randomBytes } from "node:crypto";
import timers from "node:timers";
import type { Clock } from "./core/services.ts";

/** The clock of this program. @internal */
export let clock: Clock = {
  steadyMs: performance.now.bind(performance),
  wallMs: () => Date.now(),
  setTimeout: timers.setTimeout,
  clearTimeout: timers.clearTimeout as Clock["clearTimeout"],
  setInterval: timers.setInterval,
  clearInterval: timers.clearInterval as Clock["clearInterval"],
  setImmediate: timers.setImmediate,
  randomBytes,
};

/** @internal */
export function turn(): Promise<void> {
  return new Promise((resolve) => clock.setImmediate(resolve));
}

/** @internal */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => clock.setTimeout(resolve, ms));
}

/** For a simulation. @internal */
export function replaceClock(other: Clock): void {
  clock = other;
}

/**
 * What rejects each wait for a signal. They share one listener, because Node.js warns of a leak at eleven, and
 * the last wait that is over removes it: the signal may live as long as the process.
 */
const waitsOf = new WeakMap<AbortSignal, Set<() => void>>();

function endWaits(this: AbortSignal): void {
  for (const end of waitsOf.get(this) ?? []) end();
}

/**
 * Begins the work, and waits for it until the signal aborts. Only the wait ends then: the work goes on, and its
 * outcome is ignored.
 *
 * @throws the signal's reason, before the work begins if the signal has aborted already; else as the work.
 */
export async function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const waits = waitsOf.get(signal) ?? new Set();
  waitsOf.set(signal, waits);
  let end = () => {};
  const aborted = new Promise<never>((_, reject) => {
    end = () => reject(signal.reason);
  });
  waits.add(end);
  signal.addEventListener("abort", endWaits); // does nothing if it listens already
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    waits.delete(end);
    if (waits.size === 0) signal.removeEventListener("abort", endWaits);
  }
}

/** Yields the items until the signal aborts. @throws as `untilAborted`. */
export async function* eachUntilAborted<T>(
  signal: AbortSignal,
  items: AsyncGenerator<T>,
): AsyncGenerator<T> {
  try {
    for (;;) {
      const { done, value } = await untilAborted(signal, () => items.next());
      if (done === true) return;
      yield value;
    }
  } finally {
    const ending = items.return(undefined);
    // After an abort it may wait for the step that is under way.
    if (signal.aborted) void ending.catch(() => {});
    else await ending;
  }
}
