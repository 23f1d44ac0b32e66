/** Starts a server on a folder after a kill, and compares the folder with what is known about it. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createToken, verifyLog } from "../../src/index.ts";
import { Connection } from "./connection.ts";
import type { FolderState } from "./folder-states.ts";
import { newTally, replay, sendPlant } from "./load.ts";
import { checkLog } from "./log-check.ts";
import type { Program } from "./program.ts";
import { Random } from "./random.ts";
import { addFindings, type Totals } from "./report.ts";
import { describeEnd, Server } from "./server.ts";

const REPLAYS = 60;

/** Checks that a server starts, serves with every token and stops, and that nothing is lost. */
export async function judgeFolder(
  program: Program,
  folder: string,
  state: FolderState,
  totals: Totals,
): Promise<void> {
  const server = new Server(program, folder);
  const port = await server.ready;
  if (port === undefined) {
    totals.failedStarts++;
    totals.faults.push(`a start ${describeEnd(await server.ended)}`);
    return;
  }
  noteLog(folder, state, totals);
  const { book, tokens } = state;
  const random = new Random(book.taken);
  for (const token of tokens) {
    totals.faults.push(...(await createAnother({ port, token, book })));
    totals.faults.push(...(await replay({ port, token, book }, book.sample(REPLAYS, random))));
  }
  const ended = await server.stop();
  if (ended.status !== 0) totals.faults.push(`a clean stop ${describeEnd(ended)}`);
  const { records, damaged, checksum, duplicates } = await verifyLog(folder);
  if (damaged + duplicates > 0 || (checksum !== "matches" && records > 0)) {
    totals.faults.push(`verify: ${damaged} damaged, ${duplicates} twice, checksum ${checksum}`);
  }
  if (tokens.length === 0) await createToken(folder, { name: "judge" });
}

/** Notes what the log has lost, and what was taken out of it but is in no quarantine file. */
function noteLog(folder: string, state: FolderState, totals: Totals): void {
  addFindings(totals, checkLog(join(folder, "plants.jsonl"), state.book));
  const { quarantined, quarantinedOfTokens = [] } = state;
  totals.faults.push(...missingInQuarantine(folder, "plants.jsonl", quarantined));
  totals.faults.push(...missingInQuarantine(folder, "tokens.jsonl", quarantinedOfTokens));
}

function missingInQuarantine(
  folder: string,
  log: string,
  quarantined: readonly Buffer[],
): string[] {
  const kept = readdirSync(folder)
    .filter((name) => name.startsWith(`${log}.quarantine-`))
    .map((name) => readFileSync(join(folder, name)));
  return quarantined
    .filter((bytes) => !kept.some((file) => file.includes(bytes)))
    .map((bytes) => `${bytes.length} bytes taken out of ${log} are in no quarantine file`);
}

async function createAnother(target: Parameters<typeof replay>[0]): Promise<string[]> {
  const tally = newTally();
  const connection = await Connection.open(target.port);
  if (connection === undefined) return ["the server accepts no connections"];
  const isAnswered = await sendPlant(connection, target, target.book.take(), tally);
  connection.close();
  if (!isAnswered || tally.refused > 0) tally.wrong.push("a create after the start failed");
  return tally.wrong;
}
