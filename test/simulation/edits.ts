/**
 * What other programs do to a folder: people with editors, copies, rotten disks. None of them syncs.
 *
 * Invariant. After each of them the folder owes what can be seen in it, until a start has served that or a cut
 * has taken it.
 */

import type { MomentKind } from "./disk.ts";
import { piecesOf } from "./image.ts";
import type { Folder } from "./judge.ts";
import type { Life } from "./life.ts";
import { Others } from "./others.ts";
import { FileNode, SystemError } from "./platter.ts";
import { type Edit, type Intrusion, makePlant, type PlantChoice, plantContent } from "./work.ts";

/** How many bytes of some lines are there, by what they lack. */
const KEPT = {
  nothing: (bytes: number) => bytes,
  "its line feed": (bytes: number) => bytes - 1,
  "a third": (bytes: number) => Math.ceil((bytes * 2) / 3),
};

/** The first one first: the others damage a whole sector. */
const ROTS = ["rot: a bit", "rot: an unreadable sector", "rot: a sector of zeros"] as const;
/** When another program appends: at a moment of an append, or of one that fails. */
const AMID = ["issued", "applied", "returned", "failing", "failing"] as const;

export class Edits {
  readonly #life: Life;
  #number = 0;

  constructor(life: Life) {
    this.#life = life;
  }

  #file(filePath: string): FileNode | undefined {
    const node = this.#life.platter.find(filePath);
    return node instanceof FileNode ? node : undefined;
  }

  #linesOf(choices: readonly PlantChoice[], lacks: keyof typeof KEPT = "nothing"): Buffer {
    const lines = choices.map((choice) => {
      const { id, name, tag } = makePlant(this.#life.plan, choice);
      const members = tag === undefined ? { name } : { name, tag };
      return `{"id":${id}, ${JSON.stringify(members).slice(1)}\n`;
    });
    const text = Buffer.from(lines.join(""));
    return text.subarray(0, KEPT[lacks](text.length));
  }

  get #others(): Others {
    const { platter, clock, random } = this.#life;
    return new Others(platter, random.fork(`${clock.events} ${++this.#number}`));
  }

  #append(
    folder: Folder,
    bytes: Buffer,
    choices: readonly PlantChoice[],
    isPastLock = false,
  ): void {
    if (this.#file(folder.logPath) === undefined) return;
    const offset = this.#file(folder.logPath)?.size ?? 0;
    if (isPastLock) {
      this.#others.appendPastLock(folder.logPath, bytes);
      const text = this.#life.judge.bytesOf(folder.logPath)?.subarray(offset) ?? Buffer.alloc(0);
      // Half a line may be what the server began to write, too.
      if (text.equals(bytes)) folder.appended.push({ offset, text });
      const { cutFrom = Number.POSITIVE_INFINITY } = folder;
      folder.isRefilled ||= offset + bytes.length >= cutFrom;
    } else this.#others.append(folder.logPath, bytes);
    if (folder.unsynced === "all") return;
    for (const choice of choices)
      folder.unsynced.add(String(makePlant(this.#life.plan, choice).id));
  }

  /** Changes a folder that nobody serves. */
  edit(folder: Folder, edit: Edit): void {
    const { platter, judge } = this.#life;
    if (platter.find(folder.path) === undefined || platter.isReadOnly) return;
    switch (edit.edit) {
      case "append":
        this.#append(folder, this.#linesOf(edit.plants, edit.lacks), edit.plants);
        break;
      case "replace":
        this.#replaceLog(folder, this.#linesOf(edit.plants));
        break;
      case "copy folder":
      case "move folder":
        this.#takeElsewhere(folder, edit.edit === "move folder");
        return;
      case "old checkpoint":
        this.#useOldCheckpoint(folder);
        break;
      case "remove log":
      case "remove checkpoint":
        this.#others.remove(
          edit.edit === "remove log" ? folder.logPath : `${folder.logPath}.checkpoint`,
        );
        if (edit.edit === "remove log") folder.unsynced = "all";
        break;
      case "cut log":
        this.#cutLog(folder, edit.line);
        break;
      case "rot":
        this.#rot(folder, edit);
        break;
      case "edit tokens":
        this.#editTokens(folder, edit.edit, edit.line);
        return;
      case "sync":
        this.#others.sync();
        this.#settleLog(folder);
        judge.settleTokens(folder);
        return;
      case "cut power":
        this.#life.cutPower("chance");
        return;
      default:
        this.#changeLines(folder, edit.edit, edit.line);
    }
    judge.absorb(folder, edit.edit);
  }

  /** What others wrote to the log is on the disk by now, unless a sync of it has failed. */
  #settleLog(folder: Folder): void {
    if (this.#life.judge.isDurable(folder.logPath)) folder.unsynced = new Set();
  }

  #changeLines(folder: Folder, how: string, line: number): void {
    const { log } = this.#life.judge.view(folder);
    if (log === undefined || log.bytes.length === 0) return;
    const lines = piecesOf(log.bytes);
    const { offset, bytes } = lines[line % lines.length] ?? { offset: 0, bytes: 0 };
    const end = offset + bytes;
    const found = log.bytes.subarray(offset, end);
    const middle = Buffer.from(found);
    if (how === "change line") middle[Math.floor(bytes / 2)] = 0x2e;
    const instead = how === "remove line" ? [] : how === "repeat line" ? [found, found] : [middle];
    const pieces = [log.bytes.subarray(0, offset), ...instead, log.bytes.subarray(end)];
    folder.unsynced = "all";
    this.#others.edit(folder.logPath, Buffer.concat(pieces));
  }

  #cutLog(folder: Folder, line: number): void {
    const node = this.#file(folder.logPath);
    const { log } = this.#life.judge.view(folder);
    if (node === undefined || log === undefined || log.bytes.length === 0) return;
    const pieces = piecesOf(log.bytes);
    this.#life.platter.truncate(node, pieces[line % pieces.length]?.offset ?? 0);
    folder.unsynced = "all";
  }

  #replaceLog(folder: Folder, more: Buffer): void {
    const bytes = this.#life.judge.bytesOf(folder.logPath);
    if (bytes === undefined) return;
    this.#others.replace(folder.logPath, Buffer.concat([bytes, more]));
    folder.unsynced = "all";
  }

  /** `cp -r` or `mv`, and whoever did it serves the folder there. */
  #takeElsewhere(folder: Folder, isMoved: boolean): void {
    const copy = this.#life.newFolder();
    if (isMoved) this.#others.move(folder.path, copy.path);
    else this.#others.copyFolder(folder.path, copy.path);
    copy.plants = folder.plants.copy();
    copy.tokens = folder.tokens.copy();
    copy.excuse = folder.excuse;
    copy.repeated = new Set(folder.repeated);
    copy.isRotten = isMoved && folder.isRotten;
    copy.hasLostCheckpoint ||= isMoved && folder.hasLostCheckpoint;
    copy.unsynced = "all";
    copy.hasUnsyncedTokens = true;
    copy.mayHaveTokenMark ||= folder.mayHaveTokenMark;
    this.#life.judge.absorb(copy, "another folder");
    this.#life.judge.adoptTokens(copy);
    this.#life.folder = copy;
  }

  #useOldCheckpoint(folder: Folder): void {
    const checkpoint = this.#life.judge.bytesOf(`${folder.logPath}.checkpoint`);
    const { oldCheckpoint } = this.#life;
    if (checkpoint === undefined) return;
    if (oldCheckpoint !== undefined) {
      this.#others.replaceCheckpoint(`${folder.logPath}.checkpoint`, oldCheckpoint);
    }
    this.#life.oldCheckpoint = checkpoint;
  }

  #rot(folder: Folder, { file, place }: Extract<Edit, { edit: "rot" }>): void {
    const { platter, random, judge } = this.#life;
    const paths = {
      log: folder.logPath,
      checkpoint: `${folder.logPath}.checkpoint`,
      tokens: folder.tokenPath,
    };
    // A bit of a token may make another one of it.
    const kinds = ROTS.slice(file === "tokens" ? 1 : 0);
    const kind = kinds[place % kinds.length] ?? "rot: a bit";
    const rot = platter.rot(paths[file], kind, random.fork(`rot ${place}`));
    if (rot === undefined) return;
    folder.isRotten ||= kind === "rot: an unreadable sector";
    if (file === "tokens") {
      folder.hasUnsyncedTokens = true; // what is durable and what is seen may differ now
      folder.mayHaveTokenMark = true;
      judge.adoptTokens(folder);
    } else if (file === "log") {
      folder.unsynced = "all";
      if (kind !== "rot: a bit") folder.excuse ??= kind;
    }
  }

  /** Appends a plant in the middle of the next append of the server, or of the next one that fails. */
  #appendAmid(folder: Folder, choice: PlantChoice): void {
    const { disk } = this.#life.world;
    const wanted = AMID[choice.number % AMID.length];
    let last: MomentKind | undefined;
    disk.onMoment = (moment, call, filePath) => {
      if (call !== "append" || filePath !== folder.logPath) return;
      const isFailing = moment === "returned" && last === "issued";
      last = moment;
      if (moment !== wanted && !(isFailing && wanted === "failing")) return;
      disk.onMoment = undefined;
      this.intrude(folder, "append", choice);
    };
  }

  /** Appends a plant at some moment of a start: what it does about the end of the log must not take that. */
  appendAmidStart(folder: Folder, choice: PlantChoice, moments: number): void {
    const { disk } = this.#life.world;
    let left = moments;
    disk.onMoment = (_, _call, filePath) => {
      if (!filePath.startsWith(folder.logPath) || --left > 0) return;
      disk.onMoment = undefined;
      this.intrude(folder, "append", choice);
    };
  }

  /** Changes a folder that a server serves. */
  intrude(folder: Folder, how: Intrusion, choice: PlantChoice): void {
    const { platter, judge } = this.#life;
    if (platter.isReadOnly) return;
    if (how === "append amid an append") {
      this.#appendAmid(folder, choice);
      return;
    }
    judge.judgeLog(folder, "before another program changes it");
    try {
      this.#intrude(folder, how, choice);
    } catch (error) {
      if (!(error instanceof SystemError)) throw error; // there was no room
    }
    if (/log$/.test(how)) folder.appended = [];
    if (isTokenEdit(how)) return;
    judge.absorb(folder, how);
    if (how === "append") {
      // The server may be writing the same plant, or another one of this id.
      const { id, ...content } = makePlant(this.#life.plan, choice);
      folder.repeated.add(String(id));
      const isOther = (each: string) => each !== plantContent({ id, ...content });
      if (folder.plants.sent(String(id)).some(isOther)) folder.excuse ??= how;
    } else if (how !== "remove lock") folder.excuse ??= how; // it may write a checkpoint of what it knows
  }

  #intrude(folder: Folder, how: Intrusion, choice: PlantChoice): void {
    switch (how) {
      case "append":
        this.#append(folder, this.#linesOf([choice]), [choice], true);
        break;
      case "remove log":
        this.#others.remove(folder.logPath);
        folder.unsynced = "all";
        break;
      case "replace log":
        this.#replaceLog(folder, Buffer.alloc(0));
        break;
      case "cut log":
        folder.cutFrom = this.#file(folder.logPath)?.size;
        this.#cutLog(folder, choice.number);
        break;
      case "remove lock":
        this.#life.world.locks.lose(folder.path, "lock");
        break;
      default:
        this.#editTokens(folder, how, choice.number);
        break;
    }
  }

  /** An operator takes the lines out of the token log that cannot be read. */
  mendTokens(folder: Folder): void {
    const { judge } = this.#life;
    const bytes = judge.bytesOf(folder.tokenPath) ?? Buffer.alloc(0);
    const pieces: Buffer[] = [];
    let end = 0;
    for (const { offset, bytes: length } of judge.tokensOf(folder).bad) {
      pieces.push(bytes.subarray(end, offset));
      end = offset + length;
    }
    this.#others.edit(folder.tokenPath, Buffer.concat([...pieces, bytes.subarray(end)]));
    folder.hasUnsyncedTokens = true;
    judge.adoptTokens(folder);
  }

  /** An operator without the command line. */
  #editTokens(folder: Folder, how: Edit["edit"] | Intrusion, number: number): void {
    const { clock, judge } = this.#life;
    const bytes = judge.bytesOf(folder.tokenPath);
    const states = [...folder.tokens.states.values()];
    const state = states[number % Math.max(1, states.length)];
    if (state === undefined || bytes === undefined) return;
    folder.tokenChanges++;
    const revokedAt = new Date(clock.wallMs()).toISOString();
    const revocation = JSON.stringify({ event: "revoked", name: state.name, revokedAt });
    const append = (text: string) => this.#others.append(folder.tokenPath, Buffer.from(text));
    try {
      if (how === "edit tokens") append(`${revocation}\n`);
      else if (how === "edit tokens, no line feed") append(revocation);
      else if (how === "spoil tokens") append(`no event\n${revocation}\n`);
      else if (how === "mend tokens") this.mendTokens(folder);
      else if (how === "remove tokens") this.#others.remove(folder.tokenPath);
      else {
        const erase = number % 2 === 0 ? "edit" : "replace";
        folder.mayHaveTokenMark = true; // between two reads of a command
        this.#others[erase](folder.tokenPath, withoutLine(bytes, state.hash));
      }
    } finally {
      folder.hasUnsyncedTokens = true;
      const isWholeLine = how === "edit tokens" || how === "spoil tokens";
      folder.areTokensContested ||= !isWholeLine && folder.tokenCommands > 0;
      judge.adoptTokens(folder); // there may be no room for it, or half a line before it
    }
  }
}

function isTokenEdit(how: Intrusion): boolean {
  return how.includes("token");
}

/** The line with this text becomes spaces. */
function withoutLine(bytes: Buffer, text: string): Buffer {
  const at = bytes.indexOf(text);
  if (at < 0) return bytes;
  const start = bytes.lastIndexOf("\n", at) + 1;
  const end = bytes.indexOf("\n", at);
  return Buffer.from(bytes).fill(" ", start, end < 0 ? bytes.length : end);
}
