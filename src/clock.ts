/**
 * The port to time and chance: clocks, timers, turns of the event loop, random bytes.
 *
 * Invariants. Timers and the monotonic clock are those that Node had when this file was loaded: fake timers
 * that an embedder's test enables later do not stop a store. `Date` is read each time, so such a test can
 * make tokens expire. A simulation replaces the clock.
 */
import { randomBytes } from "node:crypto";
import timers from "node:timers";
import { setImmediate as turn } from "node:timers/promises";
import type { Clock } from "./core/services.ts";

/** The clock of this program. @internal */
export let clock: Clock = {
  monotonicMs: performance.now.bind(performance),
  wallMs: () => Date.now(),
  setTimeout: timers.setTimeout,
  clearTimeout: timers.clearTimeout as Clock["clearTimeout"],
  setInterval: timers.setInterval,
  clearInterval: timers.clearInterval as Clock["clearInterval"],
  turn,
  randomBytes,
};

/** For a simulation. @internal */
export function setClock(other: Clock): void {
  clock = other;
}

/** @internal */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => clock.setTimeout(resolve, ms));
}
