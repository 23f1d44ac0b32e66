/** `repair` of logs that a start refuses. After a kill a start succeeds, or refuses as before. */
import { existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type FolderState, type MakeState, makeClean } from "./folder-states.ts";
import { judgeFolder } from "./judge.ts";
import { PlantBook } from "./plant-book.ts";
import { type Program, Run, runProgram } from "./program.ts";
import type { Totals } from "./report.ts";
import type { Scenario } from "./scenario.ts";
import { describeEnd, Server } from "./server.ts";

interface Damage {
  /** Whether the repair writes a new log, so that it has to keep the old one. */
  readonly keepsOld: boolean;
  readonly make: MakeState;
}

/** A log with a line inserted before this line. */
function inserting(at: number, makeLine: (book: PlantBook) => string, tail = ""): MakeState {
  return async (folder) => {
    const state = await makeClean(folder);
    const path = join(folder, "plants.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    writeFileSync(path, lines.toSpliced(at, 0, makeLine(state.book)).join("\n") + tail);
    return { ...state, quarantined: tail === "" ? [] : [Buffer.from(tail)] };
  };
}

/** A log in which the line of this plant is replaced or removed. */
function without(plant: number, ...instead: readonly string[]): MakeState {
  return async (folder) => {
    const { tokens, book } = await makeClean(folder);
    const path = join(folder, "plants.jsonl");
    const lines = readFileSync(path, "utf8").split("\n");
    writeFileSync(path, lines.toSpliced(plant, 1, ...instead).join("\n"));
    const known = new PlantBook({ hasLongNames: false });
    while (known.taken < book.taken) {
      const next = known.take();
      if (next !== plant) known.acknowledge(next);
    }
    return { tokens, book: known, quarantined: [] };
  };
}

async function makeGone(folder: string): Promise<FolderState> {
  const { tokens } = await makeClean(folder);
  rmSync(join(folder, "plants.jsonl"));
  return { tokens, book: new PlantBook({ hasLongNames: false }), quarantined: [] };
}

const DAMAGES: Readonly<Record<string, Damage>> = {
  "line overwritten": { keepsOld: true, make: without(5, "no plant") },
  "unreadable line and torn tail": {
    keepsOld: true,
    make: inserting(5, () => "no plant", '{"id":77,"na'),
  },
  "one id with two contents": { keepsOld: true, make: inserting(5, (book) => book.conflict(2)) },
  "edited by hand": { keepsOld: false, make: without(11) },
  "log gone": { keepsOld: false, make: makeGone },
};

export const REPAIRS: readonly Scenario[] = Object.entries(DAMAGES).map(([name, damage]) =>
  repairScenario(name, damage),
);

function repairScenario(name: string, { keepsOld, make }: Damage): Scenario {
  let state: FolderState | undefined;
  let original: Buffer | undefined;
  return {
    name: `repair: ${name}`,
    async prepare(root) {
      state = await make(join(root, "data"));
      original = readLogBytes(join(root, "data"));
    },
    async attempt(root, { program, surroundings }) {
      if (state === undefined) throw new Error("not prepared");
      const before = state;
      const folder = join(root, "data");
      const args = ["repair", "--yes", "--data", folder];
      const ended = await new Run(program, args, surroundings).ended;
      return {
        ended,
        acknowledged: 0,
        judge: async (totals) => {
          await repairAgain(program, folder, original, totals);
          if (keepsOld && !isKept(folder, original)) totals.faults.push("the old log was not kept");
          await judgeFolder(program, folder, { ...before, book: before.book.copy() }, totals);
        },
      };
    },
  };
}

/** If a start still refuses the folder, nothing has changed, and another repair succeeds. */
async function repairAgain(
  program: Program,
  folder: string,
  original: Buffer | undefined,
  totals: Totals,
): Promise<void> {
  const server = new Server(program, folder);
  if ((await server.ready) !== undefined) {
    await server.kill();
    return;
  }
  const refusal = await server.ended;
  if (refusal.status !== 3) totals.faults.push(`a start ${describeEnd(refusal)}`);
  const found = readLogBytes(folder);
  const isSame = found === undefined ? original === undefined : original?.equals(found) === true;
  if (!isSame) totals.faults.push("a log that a start refuses has changed");
  const repaired = await runProgram(program, ["repair", "--yes", "--data", folder]);
  if (repaired.status !== 0) totals.faults.push(`another repair ${describeEnd(repaired)}`);
}

function readLogBytes(folder: string): Buffer | undefined {
  const path = join(folder, "plants.jsonl");
  return existsSync(path) ? readFileSync(path) : undefined;
}

function isKept(folder: string, original: Buffer | undefined): boolean {
  return readdirSync(folder)
    .filter((name) => name.includes(".before-repair-"))
    .some((name) => original?.equals(readFileSync(join(folder, name))));
}
