/**
 * `npm run crash`: the long form of the tests in this folder. Prints a table; the exit status is 1
 * if anything was lost, duplicated or wrong.
 *
 *   npm run crash -- --rounds 500 --seed 7        SIGKILL at random moments under load
 *   npm run crash -- --rivals 50                  two servers on one log, without a lock
 *   npm run crash -- --power-cuts 50              power cuts of a disk, after files were used that nobody synced
 *   npm run crash -- --ci                         what `.ci/run` runs: a part of all of these
 */
import { parseArgs } from "node:util";
import { CUT_SCENARIOS, runPowerCuts } from "./cut-rounds.ts";
import { runKillRounds } from "./kill-rounds.ts";
import { FILE_SYSTEMS, whyNoLoopDisk } from "./loop-disk.ts";
import { BUILT, buildUnlockedProgram, type Program } from "./program.ts";
import { Random } from "./random.ts";
import {
  addTotals,
  CUTS_HEAD,
  cutsRow,
  formatFaults,
  formatTable,
  isClean,
  newTotals,
  TOTALS_HEAD,
  type Totals,
  totalsRow,
} from "./report.ts";
import { RIVAL_KINDS, runRivals } from "./rival-rounds.ts";

const HELP = `Options:
  --rounds N        kills at random moments (500)
  --connections N   keep-alive connections of the load (64)
  --seed N          repeats the choices of a run
  --rivals N        N rounds of each kind of two servers on one log, without the lock, instead
  --power-cuts N    N power cuts in each scenario on each file system, instead; needs root, loop
                    devices and strace, and is faster with TMPDIR=/dev/shm
  --file-system FS  with --power-cuts: ext4 or xfs only
  --only TEXT       with --rivals or --power-cuts: only scenarios or kinds with this in their name
  --jobs N          with --power-cuts: how many runs go on at once (2)
  --ci              20 rounds, then 2 rounds of each kind of rivals, and 1 power cut in each scenario
                    on each file system, instead
`;

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "500" },
    connections: { type: "string", default: "64" },
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    only: { type: "string", default: "" },
    jobs: { type: "string", default: "2" },
    rivals: { type: "string" },
    "power-cuts": { type: "string" },
    "file-system": { type: "string", default: "" },
    ci: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

const seed = Number(values.seed);
const connections = Number(values.connections);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function rounds(program: Program, count: number): Promise<Totals> {
  const totals = await runKillRounds(program, {
    rounds: count,
    seed,
    connections,
    onRound: (done, { acknowledged, faults }) => {
      if (done % 50 === 0) {
        print(`round ${done}: ${acknowledged} acknowledged, ${faults.length} faults`);
      }
    },
  });
  print(formatTable([TOTALS_HEAD, totalsRow(totals)]));
  return totals;
}

async function rivals(program: Program, count: number): Promise<Totals> {
  const unlocked = await buildUnlockedProgram();
  const random = new Random(seed);
  const all = newTotals();
  const [, ...head] = TOTALS_HEAD;
  const rows: (string | number)[][] = [["", "rounds", ...head, "failed servers", "refused starts"]];
  for (const name of Object.keys(RIVAL_KINDS)) {
    if (!name.includes(values.only)) continue;
    const options = { rounds: count, random, connections };
    const report = await runRivals({ locked: program, unlocked }, name, options);
    rows.push([name, ...totalsRow(report.totals), report.failures, report.refusals]);
    addTotals(all, report.totals);
    print(`${name}: ${report.totals.acknowledged} acknowledged`);
  }
  print(formatTable(rows));
  return all;
}

async function powerCuts(program: Program, count: number): Promise<Totals> {
  const all = newTotals();
  const rows: (string | number)[][] = [];
  const runs: (() => Promise<void>)[] = [];
  for (const fileSystem of FILE_SYSTEMS.filter((name) => name.includes(values["file-system"]))) {
    const reason = whyNoLoopDisk(fileSystem);
    if (reason !== undefined) print(`power cuts on ${fileSystem}: not run: ${reason}`);
    for (const scenario of reason === undefined ? CUT_SCENARIOS : []) {
      if (!scenario.name.includes(values.only)) continue;
      const random = new Random(seed + runs.length);
      runs.push(async () => {
        const totals = await runPowerCuts(program, scenario, { fileSystem, rounds: count, random });
        rows.push(cutsRow(scenario.name, fileSystem, totals));
        addTotals(all, totals);
        print(`${scenario.name}, ${fileSystem}: ${totals.acknowledged} acknowledged`);
      });
    }
  }
  await runAll(runs, Number(values.jobs));
  print(formatTable([CUTS_HEAD, ...rows.sort()]));
  return all;
}

/** Runs so many at once. */
async function runAll(runs: readonly (() => Promise<void>)[], jobs: number): Promise<void> {
  const waiting = [...runs];
  const work = async () => {
    for (let run = waiting.shift(); run !== undefined; run = waiting.shift()) await run();
  };
  await Promise.all(Array.from({ length: jobs }, work));
}

/** More of what the tests in this folder sample, within a few minutes. */
async function ci(program: Program): Promise<Totals> {
  const all = newTotals();
  addTotals(all, await rounds(program, 20));
  addTotals(all, await rivals(program, 2));
  addTotals(all, await powerCuts(program, 1));
  return all;
}

async function main(): Promise<void> {
  print(`seed ${seed}, Node ${process.version}`);
  const totals = await runPart(BUILT);
  process.stdout.write(formatFaults(totals));
  process.exitCode = isClean(totals) && totals.kills > 0 ? 0 : 1;
}

function runPart(program: Program): Promise<Totals> {
  if (values.ci) return ci(program);
  if (values.rivals !== undefined) return rivals(program, Number(values.rivals));
  if (values["power-cuts"] !== undefined) return powerCuts(program, Number(values["power-cuts"]));
  return rounds(program, Number(values.rounds));
}

if (values.help) process.stdout.write(HELP);
else await main();
