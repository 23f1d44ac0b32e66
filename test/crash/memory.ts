/** The resident memory and the descriptors of a process over time, and whether they stay level. */
import { readdirSync, readFileSync } from "node:fs";

export interface Sample {
  readonly seconds: number;
  readonly residentBytes: number;
  /** Plants in the store; each takes memory in the index. */
  readonly plants: number;
  /** Open files and sockets. */
  readonly descriptors: number;
}

/** Far more than a plant takes in the index, and far less than a request that leaks. */
const BYTES_PER_PLANT = 64;
/** Garbage that may not be collected yet. */
const SLACK_BYTES = 32 * 1024 * 1024;

export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+([0-9]+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
}

export function openDescriptors(pid: number): number {
  return readdirSync(`/proc/${pid}/fd`).length;
}

export interface Growth {
  readonly bytes: number;
  readonly plants: number;
  readonly isLevel: boolean;
  /** Compares the fewest that were open in each quarter, because connections come and go. */
  readonly descriptors: number;
}

/** Compares the third quarter with the last, because the program warms up before. */
export function lateGrowth(samples: readonly Sample[]): Growth {
  const quarter = Math.floor(samples.length / 4);
  const third = samples.slice(2 * quarter, 3 * quarter);
  const last = samples.slice(3 * quarter);
  const bytes = mean(last, "residentBytes") - mean(third, "residentBytes");
  const plants = mean(last, "plants") - mean(third, "plants");
  const isLevel = bytes <= plants * BYTES_PER_PLANT + SLACK_BYTES;
  const fewest = (quarter: readonly Sample[]) =>
    Math.min(...quarter.map((sample) => sample.descriptors));
  return { bytes, plants, isLevel, descriptors: fewest(last) - fewest(third) };
}

function mean(samples: readonly Sample[], member: "residentBytes" | "plants"): number {
  const sum = samples.reduce((total, sample) => total + sample[member], 0);
  return samples.length === 0 ? 0 : sum / samples.length;
}
