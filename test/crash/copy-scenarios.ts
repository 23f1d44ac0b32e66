/** `backup`, `restore` and `import`: a killed command does no harm and can be run again. */
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { type FolderState, makeClean } from "./folder-states.ts";
import { judgeFolder } from "./judge.ts";
import type { PlantBook } from "./plant-book.ts";
import { Run, runProgram } from "./program.ts";
import type { Scenario } from "./scenario.ts";
import { describeEnd } from "./server.ts";

const SOURCE_FILES = ["plants.jsonl", "tokens.jsonl", "plants.jsonl.checkpoint"] as const;
const PLANTS = 300;
/** So long that the file takes several reads, and several batches. */
const IMPORTED = 12_000;

function backupScenario(): Scenario {
  let state: FolderState | undefined;
  return {
    name: "backup",
    async prepare(root) {
      state = await makeClean(join(root, "data"), PLANTS);
    },
    async attempt(root, { program, surroundings }) {
      if (state === undefined) throw new Error("not prepared");
      const before = state;
      const source = join(root, "data");
      const target = join(root, "copy");
      const original = readFiles(source);
      const args = ["backup", target, "--data", source];
      const ended = await new Run(program, args, surroundings).ended;
      return {
        ended,
        acknowledged: 0,
        judge: async (totals) => {
          if (readFiles(source) !== original) totals.faults.push("the source was changed");
          if (!existsSync(target)) {
            const again = await runProgram(program, args);
            if (again.status !== 0) totals.faults.push(`another backup ${describeEnd(again)}`);
          }
          const verified = await runProgram(program, ["verify", "--data", target]);
          if (!/checksum +matches/.test(verified.stdout)) {
            totals.faults.push(`verify of the copy: ${verified.stdout} ${verified.stderr}`);
          }
          await judgeFolder(program, target, { ...before, book: before.book.copy() }, totals);
        },
      };
    },
  };
}

/** So that the new backup has the same name in every run. */
const STILL_CLOCK = `const at = Date.UTC(2026, 0, 4);
globalThis.Date = class extends Date { static now() { return at; } };`;

const OLD_BACKUPS = ["plants-000001-20260102T000000Z", "plants-000002-20260101T000000Z"];
const WHOLE = /^plants-\d{6}-\d{8}T\d{6}Z$/;

/** A killed backup into a folder leaves as many whole backups as are kept, and the next one tidies up. */
function numberedBackupScenario(): Scenario {
  let state: FolderState | undefined;
  return {
    name: "backup --into",
    async prepare(root) {
      state = await makeClean(join(root, "data"), PLANTS);
      for (const name of OLD_BACKUPS) {
        mkdirSync(join(root, "backups", name), { recursive: true });
        for (const file of SOURCE_FILES) {
          copyFileSync(join(root, "data", file), join(root, "backups", name, file));
        }
      }
      mkdirSync(join(root, "backups", `${OLD_BACKUPS[0]}.unfinished-01`));
    },
    async attempt(root, { program, surroundings }) {
      if (state === undefined) throw new Error("not prepared");
      const before = state;
      const source = join(root, "data");
      const folder = join(root, "backups");
      const original = readFiles(source);
      const args = ["backup", "--into", folder, "--keep", "2", "--data", source];
      const clock = ["--import", `data:text/javascript,${encodeURIComponent(STILL_CLOCK)}`];
      const nodeArgs = [...(surroundings.nodeArgs ?? []), ...clock];
      const ended = await new Run(program, args, { ...surroundings, nodeArgs }).ended;
      const wholeOnes = () => readdirSync(folder).filter((name) => WHOLE.test(name));
      return {
        ended,
        acknowledged: 0,
        judge: async (totals) => {
          if (readFiles(source) !== original) totals.faults.push("the source was changed");
          const left = wholeOnes();
          if (left.length < 2) totals.faults.push(`left only ${left}`);
          for (const name of left) {
            const path = join(folder, name);
            const { stdout } = await runProgram(program, ["verify", "--data", path]);
            if (!/checksum +matches/.test(stdout))
              totals.faults.push(`verify of ${name}: ${stdout}`);
          }
          const again = await runProgram(program, args);
          if (again.status !== 0) totals.faults.push(`another backup ${describeEnd(again)}`);
          const names = readdirSync(folder).filter((name) => !name.startsWith("lock."));
          const [, newest = ""] = wholeOnes().sort();
          if (names.length !== 2 || newest === OLD_BACKUPS[1]) totals.faults.push(`now ${names}`);
          const expected = { ...before, book: before.book.copy() };
          await judgeFolder(program, join(folder, newest), expected, totals);
        },
      };
    },
  };
}

/** A killed restore can be run again, if need be in an emptied folder; no start serves a part of it. */
function restoreScenario(): Scenario {
  let state: FolderState | undefined;
  return {
    name: "restore",
    async prepare(root) {
      state = await makeClean(join(root, "copy"), PLANTS);
    },
    async attempt(root, { program, surroundings }) {
      if (state === undefined) throw new Error("not prepared");
      const before = state;
      const folder = join(root, "data");
      const args = ["restore", join(root, "copy"), "--data", folder];
      const ended = await new Run(program, args, surroundings).ended;
      return {
        ended,
        acknowledged: 0,
        judge: async (totals) => {
          const isThere = (name: string) => existsSync(join(folder, name));
          if (!isThere("plants.jsonl")) {
            if (isThere("plants.jsonl.checkpoint")) {
              const started = await runProgram(program, ["serve", "--port=0", "--data", folder]);
              if (started.status !== 3) totals.faults.push(`a start ${describeEnd(started)}`);
              rmSync(folder, { recursive: true });
            }
            const again = await runProgram(program, args);
            if (again.status !== 0) totals.faults.push(`another restore ${describeEnd(again)}`);
          }
          const verified = await runProgram(program, ["verify", "--data", folder]);
          if (!/checksum +matches/.test(verified.stdout)) {
            totals.faults.push(`verify: ${verified.stdout} ${verified.stderr}`);
          }
          await judgeFolder(program, folder, { ...before, book: before.book.copy() }, totals);
        },
      };
    },
  };
}

function readFiles(folder: string): string {
  return SOURCE_FILES.map((name) => readFileSync(join(folder, name), "utf8")).join("\0");
}

/** A file that begins with plants that are already stored, and continues with new ones. */
function importScenario(name: string, plantsBefore: number): Scenario {
  let state: FolderState | undefined;
  let book: PlantBook | undefined;
  return {
    name: `import: ${name}`,
    async prepare(root) {
      state = await makeClean(join(root, "data"), plantsBefore);
      book = state.book;
      while (book.taken < IMPORTED) book.take();
      const { taken } = book;
      const lines = Array.from({ length: taken }, (_, plant) => `${book?.line(plant)}\n`);
      writeFileSync(join(root, "plants"), lines.join(""));
    },
    async attempt(root, { program, surroundings }) {
      if (state === undefined) throw new Error("not prepared");
      const before = state;
      const folder = join(root, "data");
      const args = ["import", join(root, "plants"), "--data", folder];
      const ended = await new Run(program, args, surroundings).ended;
      const after = before.book.copy();
      if (/^created /m.test(ended.stdout)) after.acknowledgeAll();
      const acknowledged = after.acknowledged - before.book.acknowledged;
      return {
        ended,
        acknowledged,
        judge: async (totals) => {
          await judgeFolder(program, folder, { ...before, book: after }, totals);
          const again = await runProgram(program, args);
          if (again.status !== 0) totals.faults.push(`another import ${describeEnd(again)}`);
          after.acknowledgeAll();
          await judgeFolder(program, folder, { ...before, tokens: [], book: after }, totals);
        },
      };
    },
  };
}

export const COPIES: readonly Scenario[] = [
  backupScenario(),
  numberedBackupScenario(),
  restoreScenario(),
  importScenario("into an empty store", 0),
  importScenario("of plants that are partly stored", 100),
];
