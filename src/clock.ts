/**
 * The clocks and timers of this process. Core reads none, so other rooms hand it these.
 *
 * Invariant: `Date` is asked each time, so that a program can test expiries with a clock of its own.
 */
import type { Clock } from "./core/followed-tokens.ts";

/** @internal */
export function systemClock(): Clock {
  return {
    performance,
    get Date() {
      return Date;
    },
    setTimeout,
    clearTimeout,
    setInterval,
    clearInterval,
  };
}
