/**
 * The commands of an operator, judged: backup, restore, verify, repair.
 */
import {
  backup,
  backupInto,
  isSound,
  repairLog,
  restore,
  type VerifyReport,
  verifyLog,
} from "../../src/index.ts";
import { parseTokenImage } from "./image.ts";
import { Folder } from "./judge.ts";
import { Violation } from "./ledger.ts";
import type { Life } from "./life.ts";
import type { Server } from "./server.ts";
import type { Command } from "./work.ts";

const NUMBERED = "/numbered";

/** A backup that was reported. */
export interface Backup {
  readonly path: string;
  /** What it owes. */
  readonly folder: Folder;
  readonly log: Buffer;
}

export async function makeBackup(server: Server, command: Command): Promise<void> {
  const { life, folder: source } = server;
  const owed = new Map([...source.plants.owed].map((id) => [id, source.plants.contentOf(id)]));
  const tokens = source.tokens.copy();
  let target: string;
  if (command.act === "backup into") {
    const { name, removed } = await backupInto(source.path, NUMBERED, { keep: command.keep });
    if (life.isDead) return;
    target = `${NUMBERED}/${name}`;
    const gone = removed.map((each) => `${NUMBERED}/${each}`);
    life.backups = life.backups.filter(({ path }) => !gone.includes(path));
    const left = life.judge.namesIn(NUMBERED).filter((each) => /^plants-\d{6}-\w+$/.test(each));
    if (left.length > command.keep && !life.hasFaults) {
      throw new Violation("backups", `${left.length} backups are kept, not ${command.keep}`);
    }
  } else {
    target = `/backup-${life.world.number}-${command.number}`;
    life.underway.add(target);
    await backup(source.path, target);
    if (life.isDead) return;
    life.underway.delete(target);
  }
  const made = new Folder(target);
  const { log, fault, checkpoint } = life.judge.view(made);
  // Another command may have made a newer one meanwhile, and removed this one.
  if (log === undefined && target.startsWith(NUMBERED) && life.judge.namesIn(target).length === 0) {
    return;
  }
  if (log === undefined || fault !== undefined || checkpoint?.bytes !== log.bytes.length) {
    throw new Violation("backup", `a backup of ${checkpoint?.bytes} bytes: ${fault}`);
  }
  life.judge.assertFolderDurable(target, "a backup");
  made.mayRepeat = source.mayRepeat;
  made.areTokensEdited = source.areTokensEdited;
  if (!server.isIntruded) {
    for (const [id, content] of owed) {
      if (log.plants.some((plant) => plant.id === id && plant.content === content)) continue;
      throw new Violation("backup", `a backup lacks id ${id}`);
    }
    made.tokens = tokens;
    life.noticeLoss();
    if (!source.hasLost) life.judge.judgeTokens(made, "a backup");
    for (const { id, content } of log.plants) source.plants.owe(id, content, "a backup");
  }
  made.plants = source.plants.copy();
  life.judge.absorb(made, "a backup");
  made.tokens = source.tokens.copy();
  forgiveTokens(life, made);
  life.backups.push({ path: target, folder: made, log: log.bytes });
}

/** Of those that are there: a command that died may have removed an old one. */
export function newestBackup({ backups, judge }: Life): Backup | undefined {
  return backups.findLast(({ folder }) => judge.bytesOf(folder.logPath) !== undefined);
}

/** A copy owes the tokens that it has. */
function forgiveTokens({ judge }: Life, folder: Folder): void {
  const image = parseTokenImage(judge.bytesOf(folder.tokenPath) ?? Buffer.alloc(0));
  for (const [token, state] of folder.tokens.states) {
    if (!image.created.has(state.hash)) folder.tokens.states.delete(token);
    else if (!image.revoked.has(state.hash)) {
      state.revokedAtMs = undefined;
      state.revokeSent = false;
    }
  }
}

/** Restores the newest backup, and has the copy served from now on. */
export async function restoreBackup(life: Life): Promise<void> {
  const source = newestBackup(life);
  if (source === undefined) return;
  const folder = life.newFolder();
  life.underway.add(folder.path);
  try {
    await restore(source.path, folder.path);
  } catch (error) {
    const { message } = life.failureOf(error);
    const left = life.judge
      .namesIn(folder.path)
      .filter((name) => !/^(lock\..*|restore\.partial)$/.test(name));
    const mayLeave = life.platter.isReadOnly || life.rules.isOn("names: a change fails");
    if (left.length === 0 || mayLeave) throw error;
    throw new Violation(
      "half a copy",
      `a restore fails (${message}), and leaves ${left.join(", ")}`,
    );
  }
  if (life.isDead) return;
  life.underway.delete(folder.path);
  life.judge.assertFolderDurable(folder.path, "a restore");
  if (life.judge.bytesOf(folder.logPath)?.equals(source.log) !== true) {
    throw new Violation("restore", "a restore has other bytes than its backup");
  }
  folder.plants = source.folder.plants.copy();
  folder.tokens = source.folder.tokens.copy();
  folder.mayRepeat = source.folder.mayRepeat;
  folder.areTokensEdited = source.folder.areTokensEdited;
  folder.tokens.startAnew(life.clock.steadyMs());
  life.judge.judgeTokens(folder, "a restore");
  life.folder = folder;
}

/** Reads the folder as `verify` does; a start has to agree. */
export async function verify(life: Life): Promise<VerifyReport | undefined> {
  try {
    return await verifyLog(life.folder.path);
  } catch (error) {
    const { message } = life.failureOf(error);
    const isMissing = life.judge.bytesOf(life.folder.logPath) === undefined;
    if (life.hasFaults || isMissing || life.folder.isRotten) return undefined;
    throw new Violation("verify", `verify: ${message}`);
  }
}

/** A start has served, or refused, what was verified. */
export function compareWithVerify(report: VerifyReport | undefined, isServed: boolean): void {
  if (report === undefined || isSound(report) === isServed) return;
  const start = isServed ? "a start serves" : "a start refuses";
  throw new Violation("verify disagrees", `${start}, and verify says ${JSON.stringify(report)}`);
}

export async function repair(life: Life): Promise<void> {
  const { folder, judge } = life;
  const before = judge.view(folder);
  const isNothing = before.log === undefined && before.checkpoint === undefined;
  life.recovering = { folder, before };
  try {
    const { action } = await repairLog(folder.path, { confirm: async () => true });
    if (life.isDead) return;
    life.note(`repair: ${action}`);
  } catch (error) {
    const { code, message } = life.failureOf(error);
    if (code === "io_error" && (isNothing || life.hasFaults || folder.isRotten)) return;
    if (["unsynced", "locked"].includes(code) && life.hasFaults) return;
    throw new Violation("repair", `a repair fails: ${code} ${message}`);
  } finally {
    if (!life.isDead) life.recovering = undefined;
  }
  const how = "a repair";
  life.noticeLoss();
  const { log } = judge.view(folder);
  judge.judgeRemoved(folder, before, how);
  if (log === undefined) return;
  judge.judgeLog(folder, how);
  judge.assertDurable(folder.logPath, log.bytes.subarray(0, log.end), 0, how);
  folder.isRepaired = true;
}
