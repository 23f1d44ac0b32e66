/**
 * What one client may cost the others: every attack of the table, with its figures and its bars.
 *
 * ATTACK_SECONDS says how long each attack lasts, ATTACK_MEMORY ("all", or names divided by commas) which
 * limits of memory the server has, and ATTACK_ONLY selects the attacks whose name contains it.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ATTACKS, type Attack, type MemoryLimit } from "./attacks.ts";
import { type Outcome, runAttack } from "./run-attack.ts";
import { MEMORY_LIMIT_NAMES, makeSandbox } from "./sandbox.ts";
import type { Kind, Phase, Sample } from "./victims.ts";

const SECONDS = Number(process.env.ATTACK_SECONDS ?? 3);
const P99_MS_MAX = 100;
const GOOD_AFTER_MS_MAX = 2000;
const CREATE_EVERY_MS = 20;
const TIMEOUT = { timeout: 2 * (SECONDS * 1000 + 120_000) };

function limitsOf({ memory = ["heap of 256 MB"] }: Attack): readonly MemoryLimit[] {
  const { ATTACK_MEMORY: chosen } = process.env;
  if (chosen === undefined) return memory;
  return MEMORY_LIMIT_NAMES.filter((name) => chosen === "all" || chosen.split(",").includes(name));
}

/** Above this share of the time the server had to wait for its core, so others use the machine. */
const WAITED_SHARE_MAX = 0.1;

/**
 * The times of creates on one connection, in order: as the client saw them, or for how long the server used
 * its core meanwhile. A create that takes long keeps others from being sent, and each of those would have
 * taken what was left of that time.
 */
function timesOf(
  { fared: { samples, endedAt } }: Outcome,
  phase: Phase,
  which: "ms" | "ownMs" = "ms",
): number[] {
  return samples
    .filter((sample) => sample.kind === "create" && sample.phase === phase)
    .flatMap((sample) => {
      const { at, ms } = sample;
      const missed = Math.min(ms, Math.max(0, endedAt - at)) / CREATE_EVERY_MS;
      const left = Array.from({ length: Math.ceil(missed) }, (_, n) => ms - n * CREATE_EVERY_MS);
      return left.map((part) => (sample[which] * part) / ms);
    })
    .filter((ms) => ms >= 0)
    .sort((a, b) => a - b);
}

function share(times: readonly number[], part: number): number {
  return (
    times[Math.min(times.length - 1, Math.floor(times.length * part))] ?? Number.POSITIVE_INFINITY
  );
}

function describeTimes(times: readonly number[]): string {
  return [0.5, 0.99, 1].map((part) => share(times, part).toFixed(1)).join(" / ");
}

function outcomesOf({ fared }: Outcome, kind: Kind): Map<string, number> {
  const counts = new Map<string, number>();
  for (const sample of fared.samples) {
    if (sample.kind !== kind || sample.phase !== "during") continue;
    counts.set(sample.outcome, (counts.get(sample.outcome) ?? 0) + 1);
  }
  return counts;
}

const describeCounts = (counts: Iterable<[string, number]>) =>
  [...counts].map(([outcome, count]) => `${count} x ${outcome}`).join(", ") || "none";

const longest = (samples: readonly Sample[], kind: Kind) =>
  Math.max(
    0,
    ...samples.filter((one) => one.kind === kind && one.phase === "during").map(({ ms }) => ms),
  );

/** How long after the attack the first create of a new client was answered 200. */
function goodAfterMs({ fared: { samples, endedAt } }: Outcome): number {
  const good = samples
    .filter(
      ({ kind, at, outcome }) =>
        kind === "create on a new connection" && at >= endedAt && outcome === "200",
    )
    .map(({ at, ms }) => at + ms - endedAt);
  return Math.min(Number.POSITIVE_INFINITY, ...good);
}

const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(0);

function logShare({ attacked, logBytes }: Outcome): number {
  return logBytes / Math.max(1, attacked?.sentBytes ?? 0);
}

function describe(outcome: Outcome): string {
  const { attacked, fared, peakBytes, cgroupPeakBytes, end, lost, oomKills } = outcome;
  const { samples, acknowledged } = fared;
  const kinds: Kind[] = ["create", "create on a new connection", "read", "scrape"];
  const statuses = kinds.map(
    (kind) =>
      `${kind}: ${describeCounts(outcomesOf(outcome, kind))} (max ${longest(samples, kind).toFixed(0)} ms)`,
  );
  const cgroup = cgroupPeakBytes === undefined ? "" : `, cgroup ${mib(cgroupPeakBytes)} MiB`;
  const log = `${logShare(outcome).toFixed(3)} (${(outcome.logBytes / 1024).toFixed(0)} KiB)`;
  return [
    `p50/p99/max ${describeTimes(timesOf(outcome, "before"))} -> ${describeTimes(timesOf(outcome, "during"))} ms`,
    ...statuses,
    `peak ${mib(peakBytes)} MiB${cgroup}`,
    `kills ${oomKills}, end ${end ?? "none"}, restart ${outcome.restarts ? "good" : "FAILED"}`,
    `health ${outcome.isHealthy ? "good" : "FAILED"}`,
    `good after ${goodAfterMs(outcome).toFixed(0)} ms`,
    `lost ${lost} of ${acknowledged.length}`,
    `log bytes per byte ${log}`,
    `own ${describeTimes(timesOf(outcome, "during", "ownMs"))} ms`,
    `waited ${outcome.waitedMs.toFixed(0)} ms for the core`,
    attacked === undefined
      ? "attacker silent"
      : `attacker: ${attacked.opened} connections, ${attacked.closed} closed, ` +
        `${(attacked.sentBytes / 1024).toFixed(0)} KiB sent, ${mib(attacked.readBytes)} MiB read, ` +
        describeCounts(Object.entries(attacked.statuses)),
  ].join(" | ");
}

/** The bars that an outcome misses. */
function findMisses(attack: Attack, outcome: Outcome): string[] {
  const p99Max = attack.p99MsMax ?? P99_MS_MAX;
  const isBusy = outcome.waitedMs > WAITED_SHARE_MAX * SECONDS * 1000;
  const p99 = share(timesOf(outcome, "during", isBusy ? "ownMs" : "ms"), 0.99);
  const isOnly200 = (kind: Kind) => [...outcomesOf(outcome, kind).keys()].join() === "200";
  const { statuses = {} } = outcome.attacked ?? {};
  const forbidden = (attack.forbidden ?? []).filter((status) => statuses[status] !== undefined);
  const checks: readonly [isMissed: boolean, what: string][] = [
    [!(p99 <= p99Max), `p99 of creates ${p99.toFixed(0)} ms, at most ${p99Max}`],
    [!isOnly200("create"), "creates were refused"],
    [!isOnly200("create on a new connection"), "creates on new connections were refused"],
    [!isOnly200("read"), "reads were refused"],
    [!isOnly200("scrape"), "the admin listener did not answer"],
    [!outcome.isHealthy, "health failed"],
    [outcome.end !== undefined, `the server ended: ${outcome.end}`],
    [outcome.oomKills > 0, "the server was killed"],
    [!outcome.restarts, "the server did not start again"],
    [!(goodAfterMs(outcome) <= GOOD_AFTER_MS_MAX), "no good answer in time after the attack"],
    [outcome.lost > 0, `${outcome.lost} acknowledged plants are lost`],
    [
      logShare(outcome) > (attack.logShareMax ?? Number.POSITIVE_INFINITY),
      `${logShare(outcome).toFixed(2)} bytes in the log for each byte sent`,
    ],
    [forbidden.length > 0, `the attacker was answered ${forbidden}`],
  ];
  return checks.filter(([isMissed]) => isMissed).map(([, what]) => what);
}

/** Runs an attack, and once more if it misses a bar: others may have used the machine. */
async function hold(t: TestContext, attack: Attack, limit: MemoryLimit): Promise<void> {
  let misses: string[] = [];
  for (let trial = 0; trial < 2; trial++) {
    const sandbox = await makeSandbox(t, limit, attack.isTls === true);
    if (typeof sandbox === "string") return t.skip(sandbox);
    const outcome = await runAttack(t, attack, sandbox, SECONDS);
    misses = findMisses(attack, outcome);
    const verdict = misses.length === 0 ? "holds" : `MISSES: ${misses.join("; ")}`;
    t.diagnostic(`${attack.by}: ${attack.name}, ${limit} | ${verdict} | ${describe(outcome)}`);
    if (misses.length === 0 || process.env.ATTACK_ONCE !== undefined) break;
  }
  assert.deepEqual(misses, []);
}

const { ATTACK_ONLY: only = "" } = process.env;

for (const attack of ATTACKS) {
  for (const limit of limitsOf(attack)) {
    const name = `others are served while ${attack.by} tries: ${attack.name} (${limit})`;
    if (name.includes(only)) test(name, TIMEOUT, (t) => hold(t, attack, limit));
  }
}
