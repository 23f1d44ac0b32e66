/**
 * Loaded into a server (`--import`): on SIGUSR2 it appends to a file the processor time of the process so
 * far, and how long the event loop was held at most since the last signal, in milliseconds.
 */
import { appendFileSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";

const delays = monitorEventLoopDelay({ resolution: 1 });
delays.enable();

process.on("SIGUSR2", () => {
  const { user, system } = process.cpuUsage();
  appendFileSync(process.env.LOOP_FILE, `${(user + system) / 1e3} ${delays.max / 1e6}\n`);
  delays.reset();
});
