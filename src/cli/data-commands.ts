/** The commands that read, check, copy and repair a data directory. */
import fs from "node:fs";
import path from "node:path";
import { INT64_RANGE, parseInt64 } from "../core/json.ts";
import { encodeLines, encodeNewPlant, parseNewPlant } from "../core/plant.ts";
import { PlantStore } from "../index.ts";
import {
  backup as backUp,
  backupInto,
  exportLines,
  type ImportFile,
  importPlants,
  isSound,
  type LineFault,
  openImportFile,
  type RepairOutcome,
  type RepairPlan,
  repairLog,
  restore as restoreInto,
  type VerifyReport,
  verifyLog,
} from "../tools.ts";
import { defineCommand, UsageError } from "./command.ts";
import { becomeOwner, isRootsAlone, requireRootsAlone } from "./data-folder.ts";
import {
  DATABASE_OPTIONS,
  type DatabaseChoice,
  isDatabase,
  openDatabase,
  withDatabase,
} from "./database.ts";
import { DATA, JSON_OUTPUT, KEEP, switchOption, textOption } from "./options.ts";
import {
  confirm,
  count,
  formatTable,
  printLines,
  printListing,
  printMessage,
  printMoreRefused,
  printRefused,
  withProgress,
} from "./output.ts";

const get = defineCommand({
  name: "get",
  summary: "print the plant with this id as a line of JSON",
  arguments: ["ID"],
  options: { data: DATA, ...DATABASE_OPTIONS },
  async run([text = ""], options) {
    const id = parseInt64(text);
    if (id === undefined) {
      throw new UsageError(`get: expected an int64 as ID, ${INT64_RANGE}, got "${text}"`);
    }
    const line = isDatabase(options)
      ? await withDatabase(options, ({ plants }) =>
          plants.get(id).then((plant) => plant && encodeNewPlant(plant)),
        )
      : await findLine(options.data, id);
    if (line === undefined) printMessage(`no plant has the id ${id}`);
    else await printListing([Buffer.from(`${line}\n`)], "result");
    return line === undefined ? 1 : 0;
  },
});

/** The first line of the log that is the plant with this id. */
async function findLine(data: string, id: bigint): Promise<string | undefined> {
  for await (const lines of exportLines(data)) {
    const isWanted = (line: string) => parseNewPlant(Buffer.from(line)).id === id;
    const found = lines.toString().split("\n").slice(0, -1).find(isWanted);
    if (found !== undefined) return found;
  }
  return undefined;
}

const exportCommand = defineCommand({
  name: "export",
  summary: "print every plant as a line of JSON: oldest first, or by id from a database",
  options: { data: DATA, ...DATABASE_OPTIONS },
  details: `What it prints can be imported, for example from a database into a data directory:
plant-store export --database URL > FILE && plant-store import FILE
If export fails, nothing is imported then. A data directory needs no export: see import.`,
  async run(_, options) {
    if (!isDatabase(options)) await printListing(exportLines(options.data));
    else {
      await withDatabase(options, ({ plants }) => printListing(encodeLines(plants.list())));
    }
  },
});

const importCommand = defineCommand({
  name: "import",
  summary: "create the plants of a data directory, or of a file of JSON lines; - is standard input",
  arguments: ["SOURCE"],
  options: { data: DATA, ...DATABASE_OPTIONS },
  becomesOwner: true,
  details: `Stop the server of --data first; a server of SOURCE may run. Plants that are already stored
are counted and left alone, so an interrupted import can be run again.
If SOURCE is a data directory or a backup, all of it is verified before the first plant is
created. If it is damaged, nothing is created, and the exit status is 3.
From a file or standard input every line that is a plant is created. The exit status is 3 if
a line was refused.`,
  async run([source = ""], options) {
    const { text, bytes: total } = await openSource(source, options);
    if (!isDatabase(options)) becomeOwner(options.data);
    const store = isDatabase(options)
      ? (await openDatabase(options)).plants
      : await PlantStore.open(options.data, { command: "import" });
    let faults = 0;
    try {
      const { created, replayed, refused } = await withProgress("importing", (show) =>
        importPlants(store, text, {
          onRefused: (line, reason) => printRefused(++faults, line, reason),
          onProgress: (done) => show(done, total),
        }),
      );
      await printLines([`created ${created}, already stored ${replayed}, refused ${refused}`]);
      return refused === 0 ? 0 : 3;
    } finally {
      printMoreRefused(faults);
      await store.close();
    }
  },
});

/** False also if it cannot be reached: opening it reports why. */
function isFolder(name: string): boolean {
  try {
    return fs.statSync(name).isDirectory();
  } catch {
    return false;
  }
}

/** Root opens a folder only if nobody else can change it, and becomes the owner of --data before if not. */
function enterForSource(source: string, data: string): void {
  if (isRootsAlone(source)) return;
  becomeOwner(data);
  requireRootsAlone(source); // if --data is root's, too
}

/** Root opens a file, and a data directory of its own, before it becomes the owner of --data. */
async function openSource(
  source: string,
  options: DatabaseChoice & { readonly data: string },
): Promise<ImportFile> {
  if (source === "-") return { text: process.stdin, bytes: undefined };
  if (!isFolder(source)) return openImportFile(source);
  if (!isDatabase(options)) enterForSource(source, options.data);
  return withProgress("verifying the source", (show) => openImportFile(source, show));
}

const backup = defineCommand({
  name: "backup",
  summary: "copy the data directory consistently: into a new folder, or as the next of several",
  arguments: ["[TARGET]"],
  options: {
    data: DATA,
    into: textOption("DIR", "instead of TARGET: add a numbered backup to this folder"),
    keep: KEEP,
  },
  details: `The copy holds everything that was acknowledged before the backup began, and is a data
directory: put it back with restore, or serve it with --data TARGET. To serve a numbered
backup, restore it first.
With --into the copy is DIR/plants-NUMBER-DATE. When it is verified and on disk, the backups
with the lowest numbers are removed, so that --keep are left with the new one. The date does
not count. An old backup that cannot be removed, or in which other files were put, stays, with
a warning; the exit status is still 0.`,
  async run([target = ""], { data, into, keep }) {
    if ((target === "") === (into === undefined)) {
      const got = target === "" ? "neither" : `"${target}" and --into "${into}"`;
      throw new UsageError(`backup: expected TARGET or --into DIR, got ${got}`);
    }
    if (into === undefined && keep !== undefined) {
      throw new UsageError("backup: --keep needs --into DIR, in which it removes old backups");
    }
    requireRootsAlone(into ?? target);
    const done = await withProgress("verifying the copy", async (onProgress) => {
      if (into !== undefined) {
        const { name, ...report } = await backupInto(data, into, { keep, onProgress }).catch(
          (error) => {
            const isUsage = error instanceof RangeError;
            throw isUsage ? new UsageError(`backup: --into: ${error.message}`) : error;
          },
        );
        return { ...report, place: path.join(into, name) };
      }
      return { ...(await backUp(data, target, onProgress)), place: target, removed: [] };
    });
    const copied = `${count(done.plants, "plant")}, ${count(done.bytes, "byte")}`;
    const removed = done.removed.length === 0 ? "" : `; removed ${done.removed.join(", ")}`;
    await printLines([`backed up ${copied}, to "${done.place}"${removed}`]);
  },
});

const restore = defineCommand({
  name: "restore",
  summary: "copy the backup SOURCE into an empty or missing data directory",
  arguments: ["SOURCE"],
  options: { data: DATA },
  becomesOwner: true,
  details: `Stop the server first, and move what is in the data directory elsewhere. SOURCE is a folder
that backup made, or a copy of a data directory. Only a copy that was verified gets its name.`,
  async run([source = ""], { data }) {
    enterForSource(source, data);
    const { plants, bytes } = await withProgress("verifying the copy", (show) =>
      restoreInto(source, data, show, () => becomeOwner(data)),
    );
    const copied = `${count(plants, "plant")}, ${count(bytes, "byte")}`;
    await printLines([`restored ${copied}, into "${data}"`]);
  },
});

const verify = defineCommand({
  name: "verify",
  summary: "read the whole log and report; exit status 3 on damage",
  options: { data: DATA, json: JSON_OUTPUT },
  details: `Damage needs a person: a line that cannot be read, one id with two contents, a checksum
that differs from the checkpoint's, a log that is shorter than its checkpoint records.
Mendable lines and torn bytes, as a power cut leaves them, are no damage: the next start
sets them aside.`,
  async run(_, { data, json = false }) {
    const onFault = (fault: LineFault) => printMessage(describeFault(fault));
    const report = await withProgress("verifying", (onProgress) =>
      verifyLog(data, { onFault, onProgress }),
    );
    await printLines(json ? [JSON.stringify(report)] : formatReport(report));
    return isSound(report) ? 0 : 3;
  },
});

function describeFault({ position, reason }: LineFault): string {
  return `line ${position.line}, byte offset ${position.offset}: ${reason}`;
}

function formatReport(report: VerifyReport): string[] {
  const { bytes, tornBytes, checkpointBytes = 0, checksum } = report;
  const meanings = {
    matches: `matches the checkpoint at ${checkpointBytes} bytes`,
    shorter: `not compared: the log holds ${bytes + tornBytes} bytes, and its checkpoint records ${checkpointBytes}: it was cut, or copied before its checkpoint`,
    differs: `differs from the checkpoint at ${checkpointBytes} bytes: these are not the bytes that were stored`,
    none: "there is no checkpoint to compare with",
  };
  const { records, duplicates, damaged, mendable } = report;
  const counts = { records, bytes, duplicates, damaged, mendable, "torn bytes": tornBytes };
  const rows = Object.entries(counts).map(([name, number]) => [name, String(number)]);
  const verdict = isSound(report)
    ? "The log is sound: a server can start with it."
    : "The log was damaged or edited: a server refuses to start with it. Keep a copy of the directory, then " +
      'let "plant-store repair" say what it would do.';
  return [...formatTable([...rows, ["checksum", meanings[checksum]]]), verdict];
}

const repair = defineCommand({
  name: "repair",
  summary: "accept an edited log, or write a new one of what is readable",
  options: {
    data: DATA,
    yes: switchOption("go ahead without asking"),
  },
  details: `If every line is readable, the log is accepted as it is. Otherwise a new log is
written without the unreadable lines, and with the first plant of each id. The old log is
kept, and every line left out is printed. Tokens are not touched.
Exit status 3 if the answer is no: the log still needs a person.`,
  async run(_, { data, yes = false }) {
    const outcome = await withProgress("reading", (onProgress) =>
      repairLog(data, {
        confirm: async (plan) => {
          printMessage(describePlan(plan));
          return yes || (await confirm("Go on?"));
        },
        onLeftOut: (fault) => printMessage(`left out: ${describeFault(fault)}`),
        onProgress,
      }),
    );
    await printLines([describeOutcome(outcome)]);
    return outcome.isDone ? 0 : 3;
  },
});

function describePlan({ action, plants, leftOut, checkpoint }: RepairPlan): string {
  const held = count(plants, "plant");
  const known = checkpoint === undefined ? "" : ` (the checkpoint records ${checkpoint.records})`;
  const plans = {
    nothing: "there is nothing to repair",
    start_empty: "there is no log any more; the store would start empty",
    rewrite: `${count(leftOut, "line")} cannot stay; a new log would hold ${held}`,
    accept: `every line is readable; the log would be accepted as it is, with ${held}`,
  };
  return plans[action] + known;
}

function describeOutcome({ action, isDone, plants, leftOut, keptAs }: RepairOutcome): string {
  const held = count(plants, "plant");
  const outcomes = {
    nothing: `nothing to repair: ${held}`,
    accept: `accepted: ${held}`,
    start_empty: "accepted: the store will start empty",
    rewrite: `repaired: ${held}, ${count(leftOut, "line")} left out; the old log is kept as "${keptAs}"`,
  };
  return isDone ? outcomes[action] : "nothing was changed";
}

/** In the order of the help. */
export const commands = [get, verify, repair, backup, restore, importCommand, exportCommand];
