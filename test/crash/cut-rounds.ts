/** Rounds of power cuts: what was reported before a cut must be on the disk, and the next start serves. */
import { existsSync } from "node:fs";
import { Connection } from "./connection.ts";
import { type CutRound, type CutScenario, ORDINARY_CUTS, type Reported } from "./cut-scenarios.ts";
import { logIn } from "./cut-source.ts";
import { FULL_DEVICES } from "./full-device.ts";
import { makeTemporaryFolder } from "./leftovers.ts";
import { checkLog } from "./log-check.ts";
import { type FileSystem, LoopDisk } from "./loop-disk.ts";
import type { Program } from "./program.ts";
import type { Random } from "./random.ts";
import { addFindings, addTotals, newTotals, type Totals } from "./report.ts";
import { describeEnd, Server } from "./server.ts";
import { SmallDisk } from "./small-disk.ts";

export const CUT_SCENARIOS: readonly CutScenario[] = [...ORDINARY_CUTS, ...FULL_DEVICES];

export interface CutOptions {
  readonly fileSystem: FileSystem;
  readonly rounds: number;
  readonly random: Random;
}

export async function runPowerCuts(
  program: Program,
  scenario: CutScenario,
  { fileSystem, rounds, random }: CutOptions,
): Promise<Totals> {
  const all = newTotals();
  for (let done = 1; done <= rounds; done++) {
    const totals = await runRound(program, scenario, fileSystem, random);
    const place = `${scenario.name}, ${fileSystem}, round ${done}`;
    addTotals(all, { ...totals, faults: totals.faults.map((fault) => `${place}: ${fault}`) });
  }
  return all;
}

/** On a disk of its own. */
async function runRound(
  program: Program,
  scenario: CutScenario,
  fileSystem: FileSystem,
  random: Random,
): Promise<Totals> {
  const totals = newTotals();
  const work = makeTemporaryFolder("cut");
  const device = scenario.isOnThinDevice ? new SmallDisk() : undefined;
  const disk = new LoopDisk(fileSystem, device?.folder);
  try {
    const round: CutRound = { program, random, totals, disk, device, work: work.path };
    const reported = await scenario.attempt(round);
    await disk.cut(reported?.running ?? []);
    totals.kills++;
    if (reported !== undefined) await judge(round, reported);
  } finally {
    disk.remove();
    device?.remove();
    work.remove();
  }
  return totals;
}

/** Compares the disk with what was reported. A token that is not as reported counts as lost. */
async function judge(round: CutRound, reported: Reported): Promise<void> {
  const { program, totals } = round;
  const { folder, book, live, revoked = [] } = reported;
  totals.acknowledged += book.acknowledged + live.length + revoked.length;
  const server = new Server(program, folder);
  const port = await server.ready;
  judgeLog(round, reported, port !== undefined);
  if (port === undefined) {
    totals.failedStarts++;
    totals.faults.push(`a start after the cut ${describeEnd(await server.ended)}`);
    return;
  }
  const line = book.line(book.take());
  for (const token of [...live, ...revoked]) {
    const connection = await Connection.open(port);
    const answer = await connection?.post(token, line);
    connection?.close();
    const expected = live.includes(token) ? 200 : 401;
    if (answer?.status !== expected) {
      lose(totals, 1, `expected ${expected} for a token, got ${answer?.status}: ${answer?.text}`);
    }
  }
  await server.kill();
}

/** @param isMended whether a start has put aside what the cut has torn. */
function judgeLog({ totals }: CutRound, { folder, book }: Reported, isMended: boolean): void {
  if (!existsSync(logIn(folder))) {
    if (book.acknowledged > 0) lose(totals, book.acknowledged, "the log is gone");
    return;
  }
  const findings = checkLog(logIn(folder), book);
  if (isMended) addFindings(totals, findings);
  else if (findings.lost > 0) lose(totals, findings.lost, `${findings.lost} plants are lost`);
}

function lose(totals: Totals, count: number, what: string): void {
  totals.lost += count;
  totals.faults.push(what);
}
