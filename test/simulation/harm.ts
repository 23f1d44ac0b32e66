/**
 * What disks and other programs do to a log: rot, and meddling. Other programs sync nothing.
 *
 * Invariants. What is taken away is no longer promised, and what is written was sent. Lines have even lengths, and
 * a cut leaves an odd one: two programs cannot leave the very length that the store expects, which it cannot notice.
 */
import { PlantStore } from "../../src/store/plant-store.ts";
import { contentOf, knownBytes } from "./image.ts";
import { FileNode, SECTOR_BYTES } from "./inode.ts";
import type { LifeRun } from "./life.ts";
import type { Step } from "./plan.ts";
import type { RuleName } from "./rules.ts";

type Act = (life: LifeRun, step: Step) => Promise<void>;

const ROT: Readonly<Record<string, (node: FileNode, at: number) => void>> = {
  "rot: a bit": (node, at) =>
    node.rot((bytes) => bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << (at % 8)), at)),
  "rot: a sector of zeros": (node, at) => {
    const start = at - (at % SECTOR_BYTES);
    node.rot((bytes) => bytes.fill(0, start, Math.min(start + SECTOR_BYTES, bytes.length)));
  },
  "rot: an unreadable sector": (node, at) => void node.bad.add(Math.floor(at / SECTOR_BYTES)),
  "rot: a file is cut": (node, at) => node.truncate(at),
  "rot: a file is lost": () => {},
};

/** Changes something durable of a file while no process runs: of the log, what its checkpoint knows. */
function rotting(rule: string): Act {
  return async ({ folder, judge, rules }, { n, size, client }) => {
    const { logPath, tokensPath, tokens } = folder;
    const paths = [logPath, logPath, `${logPath}.checkpoint`, tokensPath];
    const filePath = paths[(n + client) % paths.length] ?? logPath;
    judge.platter.commitAll(); // time has passed
    const node = judge.platter.file(filePath);
    const known = filePath === logPath ? knownBytes(judge.filesOf(folder).checkpoint) : 1e9;
    const end = Math.min(known, node?.bytes.length ?? 0);
    if (node === undefined || end === 0 || folder.isChanged) return;
    rules.count(rule as RuleName);
    if (filePath === tokensPath) tokens.isRotten = true;
    else folder.isChanged = true;
    folder.isSettled = false;
    if (rule === "rot: a file is lost") judge.platter.unlink(filePath);
    ROT[rule]?.(node, Math.floor((end * (n * 6 + size - 1)) / 246));
    judge.platter.commitAll();
  };
}

/** What an editor may append; the last three are no lines of the store. */
function linesOf({ judge }: LifeRun, { n, size }: Step): Buffer {
  const lines = Array.from({ length: size }, (_, at) => {
    const id = String(1000 + ((n + at) % 20));
    const name = "n".repeat(n * 20);
    for (const sent of [name, `${name}n`]) judge.send(id, contentOf(sent, undefined));
    return `{"id":${id},"name":"${name}"}\n`;
  });
  const text = lines.join("");
  const unended = text.replace('"}', 'n"}').slice(0, -1);
  const others = [text, text, unended, text.replace(":", ":  "), "?\n\0\0\0\n"];
  return Buffer.from(others[n % others.length] ?? "");
}

const MEDDLING: Readonly<Record<string, (life: LifeRun, step: Step) => void>> = {
  "others: append": (life, step) =>
    life.judge.platter.file(life.folder.logPath)?.append(linesOf(life, step)),
  "others: cut": ({ judge, folder }, { size }) => {
    const node = judge.platter.file(folder.logPath);
    if (node === undefined) return;
    const length = Math.floor((node.bytes.length * size) / 7);
    node.truncate(Math.max(0, length - 1 + (length % 2)));
    const rest = folder.stable.subarray(0, node.bytes.length);
    folder.setStable(rest.subarray(0, rest.lastIndexOf("\n") + 1));
  },
  "others: replace": (life, step) => {
    const { judge, folder } = life;
    const other = life.newPath("other");
    const node = new FileNode();
    node.append(linesOf(life, step));
    judge.platter.create(other, node);
    judge.platter.rename(other, folder.logPath);
    folder.setStable(Buffer.alloc(0));
  },
  "others: remove the log": ({ judge, folder }) => {
    judge.platter.unlink(folder.logPath);
    folder.setStable(Buffer.alloc(0));
  },
  "others: remove the lock": removeLock,
};

function removeLock({ process, folder, server }: LifeRun): void {
  process.locks.removeEntry(folder.path, "lock");
  if (server !== undefined) server.isUnlocked = true;
}

function disturb({ rules, server, folder }: LifeRun, rule: string): void {
  rules.count(rule as RuleName);
  if (server !== undefined) server.isDisturbed = true;
  folder.isChanged ||= rule !== "others: remove the lock";
  folder.isSettled = false;
}

/** Another program does something now, or in the middle of a later append. */
function meddling(rule: string): Act {
  return async (life, step) => {
    const { disk } = life.process;
    const meddle = () => {
      disk.onMoment = undefined;
      disturb(life, rule);
      MEDDLING[rule]?.(life, step);
    };
    const moment = ["now", "issued", "applied", "returned"][step.n % 4];
    if (moment === "now") return meddle();
    disk.onMoment = (kind, call) => {
      if (kind === moment && call === "append") meddle();
    };
  };
}

async function startAnother(life: LifeRun): Promise<void> {
  const { server, folder } = life;
  if (server === undefined || server.other !== undefined) return;
  disturb(life, "others: a second process past the lock");
  removeLock(life);
  server.other = await PlantStore.open(folder.path, { queueBytesMax: 2 ** 20 });
}

export const HARMS: Readonly<Record<string, Act>> = {
  ...Object.fromEntries(Object.keys(ROT).map((rule) => [rule, rotting(rule)])),
  ...Object.fromEntries(Object.keys(MEDDLING).map((rule) => [rule, meddling(rule)])),
  "others: a second process past the lock": startAnother,
};
