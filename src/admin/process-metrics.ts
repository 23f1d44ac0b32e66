/** What any program under Prometheus tells of its process, under the names that dashboards know. */
import { readdirSync, readFileSync } from "node:fs";
import { type Metric, single } from "./exposition.ts";
import { Histogram } from "./histogram.ts";

/** Meets every pause that a client feels, for about 1 % of a processor that has nothing else to do. */
const SAMPLE_MS = 10;

/**
 * How late timers fire: how long the event loop was kept from what waited.
 *
 * Not `monitorEventLoopDelay`: it tells quantiles, which nobody can add up over
 * time or over servers, and not the buckets that Prometheus makes them of.
 */
export class EventLoopDelay {
  readonly seconds = new Histogram([0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1]);
  readonly #timer: NodeJS.Timeout;
  #last = performance.now();

  constructor() {
    this.#timer = setInterval(() => {
      const now = performance.now();
      this.seconds.observe(Math.max(0, now - this.#last - SAMPLE_MS) / 1000);
      this.#last = now;
    }, SAMPLE_MS);
    this.#timer.unref();
  }

  close(): void {
    clearInterval(this.#timer);
  }
}

export function readProcessMetrics(delay: EventLoopDelay): Metric[] {
  const { user, system } = process.cpuUsage();
  const memory = process.memoryUsage();
  const descriptors = readDescriptors();
  return [
    single(
      "counter",
      "process_cpu_seconds_total",
      "Processor time of the process, of its user and system part.",
      (user + system) / 1e6,
    ),
    single("gauge", "process_resident_memory_bytes", "Memory of the process.", memory.rss),
    single(
      "gauge",
      "process_start_time_seconds",
      "When the process started, in seconds since 1970.",
      performance.timeOrigin / 1000, // stays, whatever becomes of the clock
    ),
    single("gauge", "process_open_fds", "Open descriptors of the process.", descriptors?.open),
    single("gauge", "process_max_fds", "The most it may have open.", descriptors?.max),
    single("gauge", "nodejs_heap_size_used_bytes", "JavaScript heap in use.", memory.heapUsed),
    single("gauge", "nodejs_heap_size_total_bytes", "JavaScript heap.", memory.heapTotal),
    single(
      "gauge",
      "nodejs_external_memory_bytes",
      "Memory that belongs to JavaScript objects outside of the heap, the index for one.",
      memory.external,
    ),
    {
      name: "nodejs_eventloop_delay_seconds",
      help: "How late a timer fired that is due every 10 ms.",
      type: "histogram",
      samples: [{ value: delay.seconds }],
    },
  ];
}

/** Unknown where there is no /proc. */
function readDescriptors(): { open: number; max: number | undefined } | undefined {
  try {
    const open = readdirSync("/proc/self/fd").length - 1; // without the one that reads
    const limits = readFileSync("/proc/self/limits", "latin1");
    return { open, max: Number(/^Max open files +([0-9]+)/m.exec(limits)?.[1]) || undefined };
  } catch {
    return undefined;
  }
}
