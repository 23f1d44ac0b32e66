/** The resident memory of a process over time, and whether it stays level. */
import { readFileSync } from "node:fs";

export interface Sample {
  readonly seconds: number;
  readonly residentBytes: number;
  /** Plants in the store; each takes memory in the index. */
  readonly plants: number;
}

/** Far more than a plant takes in the index, and far less than a request that leaks. */
const BYTES_PER_PLANT = 64;
/** Garbage that may not be collected yet. */
const SLACK_BYTES = 32 * 1024 * 1024;

export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+([0-9]+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}

export interface Growth {
  readonly bytes: number;
  readonly plants: number;
  readonly isLevel: boolean;
}

/** Compares the third quarter with the last, because the program warms up before. */
export function lateGrowth(samples: readonly Sample[]): Growth {
  const quarter = Math.floor(samples.length / 4);
  const third = samples.slice(2 * quarter, 3 * quarter);
  const last = samples.slice(3 * quarter);
  const bytes = mean(last, "residentBytes") - mean(third, "residentBytes");
  const plants = mean(last, "plants") - mean(third, "plants");
  return { bytes, plants, isLevel: bytes <= plants * BYTES_PER_PLANT + SLACK_BYTES };
}

function mean(samples: readonly Sample[], member: "residentBytes" | "plants"): number {
  const sum = samples.reduce((total, sample) => total + sample[member], 0);
  return samples.length === 0 ? 0 : sum / samples.length;
}
