/**
 * What signals mean to a server: SIGTERM and SIGINT end it, and so does the
 * primary of `node:cluster` that disconnects it; SIGHUP has it read its
 * certificate again, and ends nothing.
 *
 * A server without a certificate at a terminal keeps the meaning that SIGHUP
 * has there: the terminal is gone, and so is who would stop the server.
 */

import cluster from "node:cluster";
import { constants } from "node:os";

/** npm hands a terminal's Ctrl-C on to a program that has already got it. */
const SAME_SIGNAL_MS = 100;

/**
 * Aborts at the first SIGTERM or SIGINT, or when the primary disconnects this worker; the second
 * signal ends the process at once.
 */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  let firstAt: number | undefined;
  const onSignal = (signal: NodeJS.Signals) => {
    if (firstAt === undefined) {
      firstAt = performance.now();
      stop.abort();
    } else if (signal !== "SIGINT" || performance.now() - firstAt > SAME_SIGNAL_MS) {
      process.off("SIGTERM", onSignal).off("SIGINT", onSignal);
      endBy(signal);
    }
  };
  process.on("SIGTERM", onSignal).on("SIGINT", onSignal);
  // node:cluster closes the worker's server first, and waits until its last connection has ended.
  if (cluster.isWorker) process.once("disconnect", () => stop.abort());
  return stop.signal;
}

function endBy(signal: NodeJS.Signals): void {
  // Process 1, as in a container, no signal ends by itself: the status is what a shell makes of one.
  if (process.pid === 1) process.exit(128 + constants.signals[signal]);
  process.kill(process.pid, signal);
}

/** Calls at every SIGHUP; without anything to reload it is ignored, but at a terminal. */
export function onReloadSignal(reload: (() => void) | undefined): void {
  if (reload === undefined && process.stdin.isTTY) return;
  process.on("SIGHUP", reload ?? (() => {}));
}
