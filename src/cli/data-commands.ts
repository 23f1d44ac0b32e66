/** The commands that read, check, copy and repair the stored plants. */
import fs from "node:fs";
import path from "node:path";
import { PlantStoreError } from "../core/errors.ts";
import { INT64_RANGE, parseInt64 } from "../core/json.ts";
import { type NewPlant, validatePlant } from "../core/plant.ts";
import {
  type BackupReport,
  backup as backUp,
  backupInto,
  type ImportReport,
  importPlants,
  type PlantService,
  repairLog,
  restore as restoreInto,
  verifyLog,
} from "../index.ts";
import { withIoError } from "../log/disk.ts";
import { defineCommand, UsageError } from "./command.ts";
import { DATA, flag, numbers, text } from "./options.ts";
import { count, printLines, printMessage, printStored, withProgress } from "./output.ts";
import { existingFolder, openStore, ownFolder, STORE, withStored } from "./store.ts";

const get = defineCommand({
  name: "get",
  summary: "print one plant as JSON",
  arguments: ["ID"],
  options: STORE,
  async run([text = ""], options) {
    const id = parseInt64(text);
    if (id === undefined) {
      throw new UsageError(`get: expected an int64 as ID, ${INT64_RANGE}, got "${text}"`);
    }
    const line = await withStored(options, existingFolder, (_, plants) => plants.getLine(id));
    if (line === undefined) throw new Error(`no plant has the id ${id}`);
    await printStored([Buffer.concat([line, Buffer.from("\n")])]);
  },
});

const exportCommand = defineCommand({
  name: "export",
  summary: "print every plant as a line of JSON",
  options: STORE,
  details: `What it prints can be imported: plant-store export --database URL > FILE && plant-store import FILE
A data directory needs no export: import its file plants.jsonl, or restore a backup.`,
  async run(_, options) {
    await withStored(options, existingFolder, (_, plants) => printStored(plants.listLines()));
  },
});

const importCommand = defineCommand({
  name: "import",
  summary: "create the plants of a file of JSON lines; - is standard input",
  arguments: ["FILE"],
  options: STORE,
  details: `Stop the server of --data first. Plants that are already stored are counted and left alone. If a
line of a file is no plant, nothing is created; from standard input, the other lines are created.
The exit status is 3 if a line was refused.`,
  async run([file = ""], options) {
    const statFile = () => withIoError(`Cannot read "${file}"`, () => fs.promises.stat(file));
    const stat = file === "-" ? undefined : await statFile();
    if (stat?.isDirectory()) {
      throw new UsageError(`expected a file, got the folder "${file}"; name its plants.jsonl`);
    }
    const read = () => (file === "-" ? process.stdin : fs.createReadStream(file));
    // A pipe can be read only once.
    const wrong = stat?.isFile() ? (await importText(CHECK, read(), "checking")).refused : 0;
    if (wrong > 0) {
      const expected = 'expected on each line a plant, such as {"id":7,"name":"Fern"}';
      const message = `nothing was created, ${count(wrong, "line")} refused: ${expected}; correct "${file}"`;
      throw new PlantStoreError("invalid_json", message);
    }
    const store = await openStore(options, "import");
    try {
      const { created, replayed, refused } = await importText(store.plants, read(), "importing");
      await printLines([`created ${created}, already stored ${replayed}, refused ${refused}`]);
      return refused === 0 ? 0 : 3;
    } finally {
      await store.close();
    }
  },
});

/** Stores nothing: an import into it checks the lines. */
const CHECK = {
  create: async (plant: NewPlant) => {
    validatePlant(plant);
    return "created" as const;
  },
};

/** How many refused lines are named; the result says how many there were. */
const NAMED_MAX = 20;

/** Imports with progress, and names the first refused lines. */
function importText(
  plants: Pick<PlantService, "create">,
  text: AsyncIterable<Buffer>,
  what: string,
): Promise<ImportReport> {
  let left = NAMED_MAX;
  const onRefused = (line: number, reason: string) => {
    if (left-- > 0) printMessage(`refused line ${line}: ${reason}`);
  };
  return withProgress(what, (show) => importPlants(plants, text, { onRefused, onProgress: show }));
}

const backup = defineCommand({
  name: "backup",
  summary: "copy the data directory into an empty folder, or as the next of several",
  arguments: ["[TARGET]"],
  options: {
    data: DATA,
    into: text("DIR", "instead of TARGET: add a backup to this folder"),
    ...numbers({ keep: "how many are kept there" }),
  },
  details: `The copy holds everything that was acknowledged before the backup began, and is a data
directory. With --into it is DIR/plants-TIME, and the oldest backups there are removed afterwards.`,
  async run([target = ""], { data, into, keep }) {
    if ((target === "") === (into === undefined)) {
      const got = target === "" ? "neither" : `"${target}" and --into "${into}"`;
      throw new UsageError(`backup: expected TARGET or --into DIR, got ${got}`);
    }
    const source = existingFolder(data);
    if (into === undefined) {
      return printCopy("backed up", await backUp(source, ownFolder(target)), `to "${target}"`);
    }
    const report = await backupInto(source, ownFolder(into), keep);
    const removed = report.removed.map((name) => `; removed ${name}`).join("");
    return printCopy("backed up", report, `to "${path.join(into, report.name)}"${removed}`);
  },
});

async function printCopy(done: string, { plants, bytes }: BackupReport, place: string) {
  await printLines([`${done} ${count(plants, "plant")}, ${count(bytes, "byte")}, ${place}`]);
  return 0 as const;
}

const restore = defineCommand({
  name: "restore",
  summary: "copy a backup into an empty data directory",
  arguments: ["SOURCE"],
  options: { data: DATA },
  details: `Stop the server first, and move what is in the data directory elsewhere. SOURCE may be any copy of
a data directory. If restore was killed, empty the data directory and run it again.`,
  async run([source = ""], { data }) {
    return printCopy("restored", await restoreInto(source, ownFolder(data)), `into "${data}"`);
  },
});

const verify = defineCommand({
  name: "verify",
  summary: "check the whole log as a start does",
  options: { data: DATA, json: flag("print JSON") },
  details: `Like a start, verify ends at the first damaged line, and names it. Torn bytes at the end, as a kill
or a power cut leaves them, are no damage: the next start moves them to quarantine.`,
  async run(_, { data, json = false }) {
    const report = await verifyLog(existingFolder(data));
    const { plants, bytes, tornBytes } = report;
    const counted = `${count(plants, "plant")}, ${count(bytes, "byte")}, ${count(tornBytes, "torn byte")}`;
    const sound = `the log is sound, a server can start with it: ${counted}`;
    await printLines([json ? JSON.stringify(report) : sound]);
  },
});

const repair = defineCommand({
  name: "repair",
  summary: "write a new log of every plant that can be read",
  options: { data: DATA, yes: flag("write the new log; without it, only report what is wrong") },
  details: `Stop the server and keep a copy of the directory first. A sound log stays as it is. Any other one
is written anew: every plant that can be read, the first one of each id. All other lines are moved
to plants.jsonl.quarantine.`,
  async run(_, { data, yes = false }) {
    const folder = ownFolder(existingFolder(data));
    if (!yes) {
      await verifyLog(folder).catch((error) => {
        printMessage(
          "nothing was changed: --yes writes a new log of every plant that can be read, the first one of each " +
            "id, and moves all other lines to plants.jsonl.quarantine",
        );
        throw error;
      });
    }
    const { plants, leftOut, isChanged } = await repairLog(folder);
    const moved = `${count(leftOut, "line")} moved to plants.jsonl.quarantine`;
    const held = count(plants, "plant");
    await printLines([isChanged ? `repaired: ${held}, ${moved}` : `nothing to repair: ${held}`]);
  },
});

/** In the order of the help. */
export const commands = [get, verify, repair, backup, restore, importCommand, exportCommand];
