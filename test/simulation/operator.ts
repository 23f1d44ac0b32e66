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
} from "../../src/tools.ts";
import { parseImage } from "./image.ts";
import { Folder } from "./judge.ts";
import { type TokenLedger, Violation } from "./ledger.ts";
import type { Life } from "./life.ts";
import { SystemError } from "./platter.ts";
import type { RuleName } from "./rules.ts";
import type { Server } from "./server.ts";
import type { Command } from "./work.ts";

const NUMBERED = "/numbered";
const NAME_CALLS = /^(rename|link|unlink|makeFolder|removeFolder|find|findEntry|list)$/;

/** A backup that was reported. */
export interface Backup {
  readonly path: string;
  /** What it owes. */
  readonly folder: Folder;
  readonly log: Buffer;
}

/** A command that fills a folder. */
export interface Copying {
  readonly source: Folder;
  /** What the source owed when it began. */
  readonly owed: ReadonlyMap<string, string>;
  readonly tokens: TokenLedger;
  /** How often others had changed the source. */
  readonly changes: number;
  readonly tokenChanges: number;
  /** Whether its folder gets its name all at once. */
  readonly isAtOnce: boolean;
}

function beginCopy(source: Folder, isAtOnce: boolean): Copying {
  const { plants, tokens, changes, tokenChanges } = source;
  const owed = plants.debts();
  return { source, owed, tokens: tokens.copy(), changes, tokenChanges, isAtOnce };
}

/** @throws Violation unless the folder is what its source was between the begin and now. Returns its log. */
export function judgeCopy({ judge }: Life, target: Folder, copying: Copying, how: string): Buffer {
  const { source, owed, tokens, changes, tokenChanges } = copying;
  const { log, fault, checkpoint } = judge.view(target);
  const isWhole =
    log !== undefined && log.bad.length === 0 && log.bytes.length === checkpoint?.bytes;
  if (!isWhole || fault !== undefined) {
    const found = `${log?.bytes.length} bytes, its checkpoint has ${checkpoint?.bytes}`;
    throw new Violation("half a copy", `${how}: ${target.path} has ${found}; ${fault}`);
  }
  source.plants.judgeKnown(log, how);
  const has = new Map(log.plants.map(({ id, content }) => [id, content]));
  for (const [id, content] of source.changes === changes ? owed : []) {
    if (has.get(id) !== content) throw new Violation("backup", `${how} lacks id ${id}`);
  }
  const isUncertain = tokens.isUncertain || source.tokens.isUncertain;
  const isKnown = source.tokenChanges === tokenChanges && !isUncertain;
  if (isKnown) judge.judgeCopiedTokens(target, tokens, source.tokens, how);
  return log.bytes;
}

export async function makeBackup(server: Server, command: Command): Promise<void> {
  const { life, folder: source } = server;
  const { judge } = life;
  const copying = beginCopy(source, true);
  let target: string;
  if (command.act === "backup into") {
    life.numberedBegun ??= copying;
    const { name, removed } = await backupInto(source.path, NUMBERED, { keep: command.keep });
    if (life.isDead) return;
    target = `${NUMBERED}/${name}`;
    const gone = removed.map((each) => `${NUMBERED}/${each}`);
    const wrong = gone.find((each) => !mayBeRemoved(life, each));
    if (wrong !== undefined) throw new Violation("backups", `"${wrong}" was removed too early`);
    life.dropBackups(gone);
    const { length } = numberedBackups(life);
    if (length > command.keep && !life.hasFaults) {
      throw new Violation("backups", `${length} are kept, not ${command.keep}`);
    }
  } else {
    target = `/backup-${life.world.number}-${command.number}`;
    life.underway.set(target, copying);
    const failed = failedNames(life);
    try {
      await backup(source.path, target);
    } catch (error) {
      judgeFailed(life, target, failed, error);
      throw error;
    }
    if (life.isDead) return;
    life.underway.delete(target);
  }
  // Another command may have made a newer one meanwhile, and removed this one.
  if (command.act === "backup into" && life.platter.find(target) === undefined) return;
  const made = new Folder(target);
  const log = judgeCopy(life, made, copying, "a backup");
  judge.assertFolderDurable(target, "a backup");
  made.plants = source.plants.copy();
  made.tokens = source.tokens.copy();
  made.repeated = new Set(source.repeated);
  judge.absorb(made, "a backup");
  judge.adoptTokens(made);
  if (!server.isIntruded) {
    // What another process reads beside a server is what that server knows to be durable.
    if (!source.hasLost) judge.assertDurable(source.logPath, log, 0, "a backup");
    for (const { id, content } of parseImage(log).plants)
      source.plants.owe(id, content, "a backup");
  }
  life.backups.push({ path: target, folder: made, log });
}

/** A backup that failed leaves nothing, if the disk lets it go. */
function judgeFailed(life: Life, target: string, failed: number, error: unknown): void {
  if (life.isDead || !mayRemove(life, failed, error)) return;
  const isOf = (name: string) =>
    `/${name}` === target || `/${name}`.startsWith(`${target}.partial-`);
  const left = life.judge.namesIn("/").find(isOf);
  if (left !== undefined) throw new Violation("backup", `it failed, and "/${left}" is there`);
}

/** How often the disk has refused to change names, or to list them. */
function failedNames({ rules }: Life): number {
  const count = (rule: RuleName) => rules.counts[rule] ?? 0;
  return count("names: a change fails") + count("list: fails") + count("find: fails");
}

/** Whether the disk let a command remove what it had made. @param failedBefore how often it had refused before. */
function mayRemove(life: Life, failedBefore: number, error: unknown): boolean {
  let root = error;
  while (root instanceof Error && root.cause !== undefined) root = root.cause;
  const isOfNames = root instanceof SystemError && NAME_CALLS.test(root.syscall);
  return !life.platter.isReadOnly && failedNames(life) <= failedBefore + (isOfNames ? 1 : 0);
}

/** The paths of numbered backups. What is being made, or removed, has another name. */
export function numberedBackups({ judge }: Life): string[] {
  return judge
    .namesIn(NUMBERED)
    .filter((name) => /^plants-\d{6}-\w+$/.test(name))
    .map((name) => `${NUMBERED}/${name}`);
}

/** Whether a command removes this one: it has a number, and as many newer ones are there as any command keeps. */
export function mayBeRemoved(life: Life, backupPath: string): boolean {
  if (!backupPath.startsWith(NUMBERED)) return false;
  const numberOf = (each: string) => each.slice(`${NUMBERED}/plants-`.length).slice(0, 6);
  const newer = numberedBackups(life).filter((each) => numberOf(each) > numberOf(backupPath));
  return newer.length >= life.keepMin;
}

/** Of those that are there: a command that died may have removed an old one. */
export function newestBackup({ backups, judge }: Life): Backup | undefined {
  return backups.findLast(({ folder }) => judge.bytesOf(folder.logPath) !== undefined);
}

/** The folder of a restore that was killed before it had placed anything. */
function killedRestore(life: Life): Folder | undefined {
  const isEmpty = (folder: string) =>
    life.judge.namesIn(folder).every((name) => /^(lock\..*|restore\.partial)$/.test(name));
  const found = [...life.underway].find(([folder, { isAtOnce }]) => !isAtOnce && isEmpty(folder));
  return found && life.folderAt(found[0]);
}

/** Restores the newest backup, and has the copy served from now on. */
export async function restoreBackup(life: Life): Promise<void> {
  const source = newestBackup(life);
  if (source === undefined) return;
  const folder = killedRestore(life) ?? life.newFolder();
  const failed = failedNames(life);
  life.underway.set(folder.path, beginCopy(source.folder, false));
  try {
    await restore(source.path, folder.path);
  } catch (error) {
    const { message } = life.failureOf(error);
    const left = life.judge
      .namesIn(folder.path)
      .filter((name) => !/^(lock\..*|restore\.partial)$/.test(name));
    if (left.length === 0 || !mayRemove(life, failed, error)) throw error;
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
  folder.repeated = new Set(source.folder.repeated);
  folder.hasBadTokens = source.folder.hasBadTokens;
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
  let done: string | undefined;
  try {
    const { action } = await repairLog(folder.path, { confirm: async () => true });
    if (life.isDead) return;
    life.note(`repair: ${action}`);
    done = action;
  } catch (error) {
    const { code, message } = life.failureOf(error);
    if (code === "io_error" && (isNothing || life.hasFaults || folder.isRotten)) return;
    if (["unsynced", "locked"].includes(code) && life.hasFaults) return;
    throw new Violation("repair", `a repair fails: ${code} ${message}`);
  } finally {
    if (!life.isDead) life.recovering = undefined;
  }
  const how = "a repair";
  const { log, checkpoint } = judge.view(folder);
  if (/accept|rewrite/.test(done ?? "") && checkpoint?.bytes !== log?.end) {
    const found = `a checkpoint of ${checkpoint?.bytes} bytes, and a log of ${log?.end}`;
    throw new Violation("repair", `it leaves ${found}`);
  }
  judge.judgeRemoved(folder, before, how);
  if (log === undefined) return;
  judge.judgeLog(folder, how);
  judge.assertLogDurable(folder, log.bytes.subarray(0, log.end), how, life.hasFaults);
  folder.hasLost = false;
  folder.unsynced = new Set();
  folder.excuse = undefined;
  folder.isRepaired = true;
  const { fault } = judge.view(folder);
  if (fault !== undefined) throw new Violation("repair", `after it ${fault}`);
}
