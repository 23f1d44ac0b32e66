/**
 * The port to time and chance: clocks, timers, turns of the event loop, random bytes.
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
