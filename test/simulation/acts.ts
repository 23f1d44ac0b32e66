/**
 * What clients and operators do, with everything they are told judged at once.
 *
 * Invariants. The store and the commands are the real ones. Commands work beside a server, or without one. What
 * arrives after the process has died is seen by nobody.
 */
import { Readable } from "node:stream";
import { PlantStoreError } from "../../src/core/errors.ts";
import { encodeNewPlant, type NewPlant } from "../../src/core/plant.ts";
import { backup, restore } from "../../src/store/backup.ts";
import { exportLines, importPlants } from "../../src/store/import-export.ts";
import { PlantStore } from "../../src/store/plant-store.ts";
import { repairLog, verifyLog } from "../../src/store/verify-repair.ts";
import { contentOf, parseLog, repaired } from "./image.ts";
import { describe, Folder, startsWith } from "./judge.ts";
import type { LifeRun } from "./life.ts";
import { makePlant, type Step } from "./plan.ts";
import { Violation } from "./process.ts";

function plantsOf(life: LifeRun, { n, size, waitMs }: Step): NewPlant[] {
  const version = waitMs === 3 ? 1 : 0;
  const plants = Array.from({ length: size }, (_, at) => makePlant(life.plan, n + at, version));
  for (const { id, name, tag } of plants) life.judge.send(String(id), contentOf(name, tag));
  life.folder.isSettled = false;
  return plants;
}

async function create(life: LifeRun, step: Step): Promise<void> {
  const creates = plantsOf(life, step).map((plant) => createOne(life, plant));
  for (const outcome of await Promise.allSettled(creates)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}

async function createOne(life: LifeRun, plant: NewPlant): Promise<void> {
  const { judge, folder, server } = life;
  const id = String(plant.id);
  const content = contentOf(plant.name, plant.tag);
  const isOther = server?.other !== undefined && life.nextRandom().chance(0.5);
  try {
    const outcome = await (isOther ? server.other : server?.store)?.create(plant);
    if (life.isDead) return;
    if (outcome === "created" && folder.known.has(id) && !life.isDisturbed) {
      throw new Violation("order", `${id} is acknowledged after a later one, or twice`);
    }
    if (server?.isUnlocked === true && !isOther) {
      throw new Violation("lock", `${id} is acknowledged without the lock`);
    }
    judge.told(folder, id, `a create was ${outcome}`, content);
  } catch (error) {
    const isConflict = error instanceof PlantStoreError && error.code === "conflict";
    if (life.isDead || !isConflict) throw error;
    if (judge.told(folder, id, "a create was refused") !== content) return;
    throw new Violation("conflict", `${id} is refused, and is the same plant`);
  }
}

/** The bytes that a reader got have to be the beginning of the log, with all that was promised before. */
async function judgeRead(life: LifeRun, what: string, lines: AsyncIterable<Buffer>) {
  const { folder, judge, server } = life;
  const least = folder.stable.length;
  const chunks: Buffer[] = [];
  for await (const chunk of lines) chunks.push(chunk);
  if (life.isDead || life.isDisturbed || folder.wanted !== undefined) return;
  const bytes = Buffer.concat(chunks);
  if (bytes.length < least || !startsWith(judge.logOf(folder), bytes)) {
    throw new Violation("read", `${what} is not the beginning of the log up to byte ${least}`);
  }
  if (server !== undefined) judge.extend(folder, bytes.length, what);
}

async function list(life: LifeRun): Promise<void> {
  if (life.server !== undefined) await judgeRead(life, "a list", life.server.store.listLines());
}

async function exportAll(life: LifeRun): Promise<void> {
  await judgeRead(life, "an export", exportLines(life.folder.path));
}

async function importSome(life: LifeRun, step: Step): Promise<void> {
  const { judge, folder, server } = life;
  if (server === undefined) return;
  const plants = plantsOf(life, step);
  const text = Buffer.from(plants.map((plant) => `${encodeNewPlant(plant)}\n`).join(""));
  const { refused } = await importPlants(
    server.store,
    Readable.from([text.subarray(0, 50), text.subarray(50)]),
  );
  if (life.isDead || refused > 0) return;
  for (const { id, name, tag } of plants) {
    judge.told(folder, String(id), "an import", contentOf(name, tag));
  }
}

async function verify(life: LifeRun): Promise<void> {
  const { folder, judge } = life;
  const least = folder.known.size;
  const report = await verifyLog(folder.path);
  if (life.isDead || folder.isChanged) return;
  const most = parseLog(judge.logOf(folder)).plants.length;
  if (report.plants >= least && report.plants <= most) return;
  throw new Violation("verify", `it reports ${JSON.stringify(report)}`);
}

async function backUp(life: LifeRun): Promise<void> {
  const { folder, judge } = life;
  const target = new Folder(life.newPath("backup"));
  const least = folder.wanted === undefined ? folder.stable : Buffer.alloc(0);
  const before = folder.tokens.copy(judge.bytesOf(folder.tokensPath));
  life.half = { path: target.path, least };
  await backup(folder.path, target.path);
  if (life.isDead) return;
  const log = judge.logOf(target);
  const isWhole = startsWith(log, least) && startsWith(judge.logOf(folder), log);
  if (!isWhole && !life.isDisturbed) {
    throw new Violation("backup", `"${target.path}" is not the beginning of the log`);
  }
  target.tokens = folder.tokens.copy(judge.bytesOf(target.tokensPath));
  if (!target.tokens.isRotten && !target.tokens.includes(before)) {
    throw new Violation("token lost", `"${target.path}" has older tokens`);
  }
  judgeCopy(life, target, log);
  life.backups.push(target);
}

/** Restores the newest backup into a new folder, which is served from then on. */
export async function restoreNewest(life: LifeRun): Promise<void> {
  const source = life.backups.at(-1);
  if (source === undefined) return;
  const { path: sourcePath, stable, tokens } = source;
  const target = new Folder(life.newPath("data"));
  life.half = { path: target.path, least: stable };
  await restore(sourcePath, target.path);
  if (life.isDead) return;
  const log = life.judge.logOf(target);
  if (!log.equals(stable)) throw new Violation("restore", `"${target.path}" differs`);
  tokens.judge(life.judge.bytesOf(target.tokensPath), "a restore");
  target.tokens = tokens.copy(life.judge.bytesOf(target.tokensPath));
  judgeCopy(life, target, log);
  life.folder = target;
}

function judgeCopy(life: LifeRun, folder: Folder, log: Buffer): void {
  const { judge } = life;
  const { checkpoint } = judge.filesOf(folder);
  if (checkpoint === undefined) throw new Violation("copy", `"${folder.path}" has no checkpoint`);
  judge.assertDurable(`${folder.logPath}.checkpoint`, checkpoint, "a copy");
  judge.assertDurable(folder.logPath, log, "a copy");
  const tokens = judge.bytesOf(folder.tokensPath);
  if (tokens !== undefined) judge.assertDurable(folder.tokensPath, tokens, "a copy");
  folder.setStable(log);
  life.half = undefined;
}

/** A copy that was killed is refused by a start, or whole. An operator empties it then. */
export async function openHalf(life: LifeRun): Promise<void> {
  const { half, judge } = life;
  if (half === undefined) return;
  life.half = undefined;
  const { logPath } = new Folder(half.path);
  const hasFiles = ["", ".checkpoint", ".new"].some((suffix) => life.exists(logPath + suffix));
  try {
    const store = await PlantStore.open(half.path, { queueBytesMax: 2 ** 20 });
    if (life.isDead) return;
    if (hasFiles && !startsWith(judge.bytesOf(logPath) ?? Buffer.alloc(0), half.least)) {
      throw new Violation("half a copy", `"${half.path}" is served`);
    }
    await store.close();
  } catch (error) {
    const isRefusal = error instanceof PlantStoreError && error.code === "corruption";
    if (!isRefusal) throw error;
  } finally {
    for (const name of life.isDead || !life.exists(half.path)
      ? []
      : judge.platter.list(half.path)) {
      judge.platter.unlink(`${half.path}/${name}`);
    }
  }
}

export async function repair(life: LifeRun): Promise<void> {
  const { folder, judge } = life;
  const before = judge.logOf(folder);
  const { plants, leftOut } = repaired(before);
  const wanted = describe(plants);
  folder.recovering = undefined;
  if (judge.world !== "crash") {
    folder.wanted = wanted;
    for (const { id, content } of plants) judge.send(id, content);
  }
  await repairLog(folder.path);
  const log = judge.logOf(folder);
  if (life.isDead || before.equals(log)) return;
  judge.assertDurable(folder.logPath, log, "a repair");
  const found = describe(parseLog(log).plants);
  if (found !== wanted) throw new Violation("repair", `it made ${found} of ${wanted}`);
  for (const line of leftOut) judge.assertKept(folder, line, "a repair");
  folder.isSettled = false;
  if (judge.world !== "crash") folder.setStable(log);
}

async function setTime({ clock, rules }: LifeRun, { n, size }: Step): Promise<void> {
  const rule = size % 2 === 0 ? "time: frozen" : "time: the wall clock is set";
  if (rules.rate(rule) === 0) return;
  rules.count(rule);
  if (size % 2 === 0) clock.nowMs += n * 200;
  else clock.offsetMs += (n - 20) * 60_000;
}

export const ACTS = {
  create,
  list,
  import: importSome,
  export: exportAll,
  verify,
  backup: backUp,
  restore: restoreNewest,
  repair,
  "set time": setTime,
};
