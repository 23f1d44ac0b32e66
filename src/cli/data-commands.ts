/** The commands that read, check, copy and repair a data directory. Most work beside a server. */
import path from "node:path";
import { parseInt64 } from "../core/int64.ts";
import { encodeNewPlant } from "../core/plant.ts";
import {
  backup as backUp,
  exportLines,
  importPlants,
  isSound,
  type LineFault,
  listLogLines,
  openImportFile,
  PlantStore,
  type RepairOutcome,
  type RepairPlan,
  readPlants,
  repairLog,
  type VerifyReport,
  verifyLog,
} from "../index.ts";
import { defineCommand, UsageError } from "./command.ts";
import { enterFolder, visitFolder } from "./data-folder.ts";
import { DATA, JSON_OUTPUT, switchOption } from "./options.ts";
import {
  confirm,
  count,
  formatTable,
  printBytes,
  printLines,
  printListing,
  printMessage,
  withProgress,
} from "./output.ts";

export const get = defineCommand({
  name: "get",
  summary: "print the plant with this id as a line of JSON",
  arguments: [{ placeholder: "ID" }],
  options: { data: DATA },
  async run([text = ""], { data }) {
    const id = parseInt64(text);
    if (id === undefined) throw new UsageError(`get: expected an int64 as ID, got "${text}"`);
    for await (const plant of readPlants(data)) {
      if (plant.id !== id) continue;
      await printLines([encodeNewPlant(plant)]);
      return 0;
    }
    printMessage(`no plant has the id ${id}`);
    return 1;
  },
});

export const list = defineCommand({
  name: "list",
  summary: "print every plant as a line of JSON, oldest first",
  options: { data: DATA },
  async run(_, { data }) {
    await printListing(listLogLines(data));
    return 0;
  },
});

export const exportCommand = defineCommand({
  name: "export",
  summary: "print the lines of the log as they are, every one checked",
  options: { data: DATA },
  details: "What it prints can be imported: plant-store export > plants.jsonl",
  async run(_, { data }) {
    await printBytes(exportLines(data));
    return 0;
  },
});

export const importCommand = defineCommand({
  name: "import",
  summary: "create the plants of a file of JSON lines; - reads standard input",
  arguments: [{ placeholder: "FILE", values: "files" }],
  options: { data: DATA },
  entersFolder: true,
  details: `Stop the server first. Plants that are stored already are counted and left, so an
import that was interrupted can be run again. Exit status 3 when a line was refused.`,
  async run([file = ""], { data }) {
    const { text, bytes: total } =
      file === "-" ? { text: process.stdin, bytes: undefined } : await openImportFile(file);
    const store = await PlantStore.open(enterFolder(data), { command: "import" });
    try {
      const { created, replayed, refused } = await withProgress("importing", (show) =>
        importPlants(store, text, {
          onRefused: (line, reason) => printMessage(`refused line ${line}: ${reason}`),
          onProgress: (done) => show(done, total),
        }),
      );
      await printLines([`created ${created}, already stored ${replayed}, refused ${refused}`]);
      return refused === 0 ? 0 : 3;
    } finally {
      await store.close();
    }
  },
});

export const backup = defineCommand({
  name: "backup",
  summary: "copy the data directory into a new folder TARGET, consistently",
  arguments: [{ placeholder: "TARGET", values: "folders" }],
  options: { data: DATA },
  entersFolder: true,
  details: `The copy holds everything acknowledged before the backup began and is itself a
data directory: restore it by copying it back, or serve it with --data TARGET.`,
  async run([target = ""], { data }) {
    // Each folder as its own owner: a target of root's stays root's.
    const visit = visitFolder(data);
    const enterTarget = () => {
      visit.end();
      const { dir, base } = path.parse(path.resolve(target));
      return path.join(enterFolder(dir), base);
    };
    const { plants, bytes } = await withProgress("verifying the copy", (show) =>
      backUp(visit.folder, target, show, enterTarget),
    );
    const copied = `${count(plants, "plant")}, ${count(bytes, "byte")}`;
    await printLines([`backed up ${copied}, to "${target}"`]);
    return 0;
  },
});

export const verify = defineCommand({
  name: "verify",
  summary: "read the whole log and report; exit status 3 on damage",
  options: { data: DATA, json: JSON_OUTPUT },
  details: `Damage is what needs a person: a line that cannot be read, one id with two contents,
another checksum than the checkpoint's, a log that is shorter than its checkpoint records.
Mendable lines and torn bytes, as a power cut leaves them, are no damage: the next start
puts them aside by itself.`,
  async run(_, { data, json = false }) {
    const onFault = (fault: LineFault) => printMessage(describeFault(fault));
    const report = await withProgress("verifying", (onProgress) =>
      verifyLog(data, { onFault, onProgress }),
    );
    await printLines(json ? [JSON.stringify(report)] : formatReport(report));
    return isSound(report) ? 0 : 3;
  },
});

/** One line for a person who looks for it in an editor. */
function describeFault({ position, reason }: LineFault): string {
  return `line ${position.line}, byte offset ${position.offset}: ${reason}`;
}

function formatReport(report: VerifyReport): string[] {
  const { bytes, tornBytes, checkpointBytes = 0 } = report;
  const checksum = {
    matches: `matches the checkpoint at ${checkpointBytes} bytes`,
    shorter: `not compared: the log holds ${bytes + tornBytes} bytes, and its checkpoint knows of ${checkpointBytes}: it was cut, or copied before its checkpoint`,
    differs: `differs from the checkpoint at ${checkpointBytes} bytes: these are not the bytes that were stored`,
    none: "there is no checkpoint to compare with",
  };
  return formatTable([
    ["records", String(report.records)],
    ["bytes", String(bytes)],
    ["duplicates", String(report.duplicates)],
    ["damaged", String(report.damaged)],
    ["mendable", String(report.mendable)],
    ["torn bytes", String(tornBytes)],
    ["checksum", checksum[report.checksum]],
  ]);
}

export const repair = defineCommand({
  name: "repair",
  summary: "accept an edited log, or write a new one of what is readable",
  options: {
    data: DATA,
    yes: switchOption("go ahead without asking"),
  },
  details: `Where every line is readable, the log is accepted as it is. Else a new log is
written without the lines that are not, the first plant of an id winning; the
old log is kept beside it, and every line left out is printed. Tokens are not touched.
Exit status 3 when the answer is no: the log still needs a person.`,
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
  const known = checkpoint === undefined ? "" : ` (the checkpoint knew of ${checkpoint.records})`;
  switch (action) {
    case "start_empty":
      return `there is no log any more; the store would start empty${known}`;
    case "rewrite":
      return `${count(leftOut, "line")} cannot stay; a new log would hold ${count(plants, "plant")}${known}`;
    default:
      return `every line is readable; the log would be accepted as it is, with ${count(plants, "plant")}${known}`;
  }
}

function describeOutcome({ action, isDone, plants, leftOut, keptAs }: RepairOutcome): string {
  if (!isDone) return "nothing was changed";
  switch (action) {
    case "nothing":
      return `nothing to repair: ${count(plants, "plant")}`;
    case "accept":
      return `accepted: ${count(plants, "plant")}`;
    case "start_empty":
      return "accepted: the store will start empty";
    case "rewrite":
      return `repaired: ${count(plants, "plant")}, ${count(leftOut, "line")} left out; the old log is kept as "${keptAs}"`;
  }
}
