/**
 * Judges what a server shows, and what its disk holds, by what the folder owes.
 *
 * Invariants. It reads the platter and never changes it. What was promised is compared with what the disk would
 * keep if the power were cut in this instant, not with what processes see. A start is judged twice: by the
 * documents (image.ts), and by whether somebody else did the damage for which it refuses.
 */
import path from "node:path";
import {
  type CheckpointImage,
  type Image,
  parseCheckpoint,
  parseImage,
  parsePlant,
  parseTokenImage,
  piecesOf,
  type TokenImage,
  tailPlant,
  whyRefused,
} from "./image.ts";
import { PlantLedger, TokenLedger, Violation } from "./ledger.ts";
import type { FileNode, Platter } from "./platter.ts";

const LOG = "plants.jsonl";
const TOKENS = "tokens.jsonl";
const KEPT = /\.(quarantine|before-repair)-\d+$/;
/** What the documents name, and what a start leaves. */
const NAMED =
  /^(plants\.jsonl(~|\.checkpoint(\.unsynced)?~?|\.(quarantine|before-repair)-\d+)?|tokens\.jsonl(~|\.repaired|\.checkpoint\.unsynced|\.quarantine-\d+)?|(tokens-)?lock\..*|restore\.partial)$/;

/** A data directory, and what it owes. */
export class Folder {
  readonly path: string;
  plants = new PlantLedger();
  tokens = new TokenLedger();
  /** What somebody else did, for which a start may refuse. */
  excuse: string | undefined;
  /** The plants that others may have written twice. */
  repeated = new Set<string>();
  /** The plants that others wrote and nobody synced. */
  unsynced: Set<string> | "all" = new Set();
  /** Whether others wrote the tokens, and nobody synced them. */
  hasUnsyncedTokens = false;
  /** Others wrote to the tokens, or a sync failed, and that left lines that cannot be read. */
  hasBadTokens = false;
  /** A sync of the tokens failed, and what it did not write may be lost. */
  hasLostTokens = false;
  /** How many commands that write tokens run. */
  tokenCommands = 0;
  /** Others wrote while one ran: both may be one line, or what they changed may be undone. */
  areTokensContested = false;
  /** The token log as this round found it, unless others have changed it meanwhile. */
  tokensBefore: Buffer | undefined;
  /** What others appended to the log in this round, unless they have changed it otherwise since. */
  appended: { readonly offset: number; readonly text: Buffer }[] = [];
  /** The line of each plant that the server knows. */
  readonly places = new Map<string, { readonly offset: number; readonly bytes: number }>();
  /** What was set aside, by name: it stays as it is. */
  readonly kept = new Map<string, Buffer>();
  /** How often others changed its log. */
  changes = 0;
  /** How often others changed its tokens. */
  tokenChanges = 0;
  /** Whether a sync of its tokens ever failed, or the disk never had them. */
  mayHaveTokenMark = false;
  /** Its length before others cut it while it was served. */
  cutFrom: number | undefined;
  /** Others cut it and appended to it, so its length does not tell the server. */
  isRefilled = false;
  /** A sector of it cannot be read. */
  isRotten = false;
  /** What nobody synced has left the cache, after a sync that failed. */
  hasLost = false;
  /** How often that happened, or happened to its checkpoint. */
  losses = 0;
  /** The same of its checkpoint. */
  hasLostCheckpoint = false;
  /** It was repaired since others changed it. */
  isRepaired = false;

  constructor(folderPath: string) {
    this.path = folderPath;
  }

  get logPath(): string {
    return path.join(this.path, LOG);
  }

  get tokenPath(): string {
    return path.join(this.path, TOKENS);
  }
}

/** What a process sees of a folder. */
export interface View {
  readonly log: Image | undefined;
  readonly checkpoint: CheckpointImage | undefined;
  /** A sync of the log has failed. */
  readonly isUnsynced: boolean;
  /** Why a start has to refuse it. */
  readonly fault: string | undefined;
  /** How often a sync of the log, or of its checkpoint, had lost something. */
  readonly losses: number;
}

export class Judge {
  platter: Platter;
  /** The monotonic clock. */
  readonly #nowMs: () => number;

  constructor(platter: Platter, nowMs: () => number) {
    this.platter = platter;
    this.#nowMs = nowMs;
  }

  bytesOf(filePath: string): Buffer | undefined {
    const node = this.platter.find(filePath);
    return node?.kind === "file" ? Buffer.from(node.bytes) : undefined;
  }

  view({ logPath, losses }: Folder): View {
    const bytes = this.bytesOf(logPath);
    const log = bytes && parseImage(bytes);
    const unsynced = this.bytesOf(`${logPath}.checkpoint.unsynced`);
    const checkpoint = parseCheckpoint(this.bytesOf(`${logPath}.checkpoint`) ?? unsynced);
    const fault = whyRefused(log, checkpoint);
    return { log, checkpoint, isUnsynced: unsynced !== undefined, fault, losses };
  }

  /** Every owed plant is there, as processes see it. */
  judgeLog(folder: Folder, how: string): void {
    const { log } = this.view(folder);
    const { plants, repeated } = folder;
    if (log === undefined) {
      if (plants.size > 0) throw new Violation("lost", `${how}: the log is gone`);
      return;
    }
    plants.judge(withTail(log), how, repeated);
    this.#judgeKept(folder, how);
  }

  /** The token log has what it owes, and nothing else. */
  judgeTokens(folder: Folder, how: string): void {
    this.settleTokens(folder);
    const image = this.tokensOf(folder);
    if (folder.tokens.isUncertain) return;
    this.judgeCopiedTokens(folder, folder.tokens, folder.tokens, how);
    // An event that a failed sync lost may have got its line feed.
    if (folder.hasLostTokens && image.bad.length > 0) folder.hasBadTokens = true;
    if (image.bad.length > 0 && !folder.hasBadTokens) {
      throw new Violation("token log", `${how}: ${image.bad.length} lines are no events`);
    }
  }

  /** @param known what may be there, too. */
  judgeCopiedTokens(folder: Folder, owed: TokenLedger, known: TokenLedger, how: string): void {
    const image = this.tokensOf(folder);
    owed.judgeOwed(image, how);
    known.judgeKnown(image, how);
  }

  tokensOf({ tokenPath }: Folder): TokenImage {
    return parseTokenImage(this.bytesOf(tokenPath) ?? Buffer.alloc(0));
  }

  /** What others wrote to the token log is on the disk by now: it owes what it has. */
  settleTokens(folder: Folder): void {
    const { tokens, tokenPath } = folder;
    if (!folder.hasUnsyncedTokens && !tokens.isUncertain) return;
    const isRemoved = this.platter.find(tokenPath) === undefined;
    // A cut brings back a file whose removal nobody has synced.
    if (isRemoved && this.platter.find(tokenPath, "durableNames") !== undefined) return;
    if (!this.isDurable(tokenPath)) return;
    if (folder.tokenCommands === 0) folder.areTokensContested = false;
    if (tokens.isUncertain) this.adoptTokens(folder);
    folder.hasUnsyncedTokens = false;
  }

  /** Others changed the token log: it owes what it has. */
  adoptTokens(folder: Folder): void {
    const image = this.tokensOf(folder);
    folder.tokens.adopt(image, this.#nowMs(), folder.hasLostTokens);
    folder.hasBadTokens = image.bad.length > 0;
    folder.tokensBefore = undefined;
    // What a failed sync has lost may still leave the cache.
    const node = this.platter.find(folder.tokenPath);
    folder.tokens.isUncertain =
      (node?.kind === "file" && node.hasLost) || folder.areTokensContested;
  }

  /** What was set aside stays as it was. */
  #judgeKept({ path: folderPath, kept }: Folder, how: string): void {
    for (const [name, bytes] of kept) {
      if (this.bytesOf(path.join(folderPath, name))?.equals(bytes) === true) continue;
      throw new Violation("quarantine changed", `${how}: "${name}" is not what it was`);
    }
  }

  /**
   * A start serves the folder.
   *
   * @param before what it found.
   * @param mayLeave whether a fault may have kept it from removing something.
   */
  judgeServed(folder: Folder, before: View, size: number, mayLeave = false): void {
    const how = "a start that serves";
    const isStill = before.losses === folder.losses; // a sync of the start may have brought old bytes back
    const { fault } = isStill ? before : this.view(folder);
    if (fault !== undefined && !folder.hasLost) {
      throw new Violation("served damage", `${how}, but ${fault}`);
    }
    if (isStill && before.isUnsynced && isDamaged(before.log)) {
      throw new Violation("served damage", `${how}, but a sync has failed, and it is damaged`);
    }
    const { log } = this.view(folder);
    if (log === undefined) throw new Violation("lost", `${how}: there is no log`);
    folder.plants.adopt(log, how, folder.repeated);
    const ids = new Set(log.plants.map(({ id }) => id));
    if (size !== ids.size) {
      throw new Violation("index", `${how}: it has ${size} plants, its log ${ids.size}`);
    }
    if (isDamaged(log)) {
      throw new Violation("served damage", `${how}: a line or the end is damaged`);
    }
    this.assertLogDurable(folder, log.bytes, how, mayLeave);
    const isExcused = mayLeave || folder.hasLostCheckpoint;
    if (!isExcused && !this.isDurable(`${folder.logPath}.checkpoint`)) {
      throw new Violation("not durable", `${how}: a cut changes its checkpoint`);
    }
    this.judgeRemoved(folder, before, how);
    this.#judgeNames(folder, log, how, mayLeave);
    folder.repeated = repeatedIn(log);
    folder.excuse = undefined;
    folder.hasLost = false;
    folder.isRepaired = false;
    folder.unsynced = new Set();
    folder.places.clear();
    folder.cutFrom = undefined;
    folder.isRefilled = false;
    this.learnPlaces(folder);
  }

  /** A process has read the log. */
  learnPlaces(folder: Folder): void {
    for (const { id, offset, bytes } of this.view(folder).log?.plants ?? []) {
      if (!folder.places.has(id)) folder.places.set(id, { offset, bytes });
    }
  }

  /** A plant that is new to the log has its place from now on. */
  #learnPlace(folder: Folder, id: string): void {
    if (folder.places.has(id)) return;
    const plant = this.view(folder).log?.plants.findLast((plant) => plant.id === id);
    if (plant !== undefined) folder.places.set(id, { offset: plant.offset, bytes: plant.bytes });
  }

  /** @throws Violation if a cut in this instant would lose the bytes. */
  assertDurable(filePath: string, bytes: Buffer, position: number, how: string): void {
    if (this.platter.keeps(filePath, bytes, position)) return;
    const where = `bytes ${position} to ${position + bytes.length} of "${filePath}"`;
    throw new Violation("not durable", `${how}: a cut would lose ${where}`);
  }

  /** The same of a log, by its name. @param hasFaults whether the folder above may have refused to be looked at. */
  assertLogDurable({ logPath }: Folder, bytes: Buffer, how: string, hasFaults: boolean): void {
    // Only where names are lost alone, that matters.
    if (hasFaults && this.platter.rules.isOn("names: any subset")) return;
    this.assertDurable(logPath, bytes, 0, how);
  }

  /** Whether no cut changes this file; one that is missing counts. */
  isDurable(filePath: string): boolean {
    const node = this.platter.find(filePath);
    if (node?.kind !== "file") return true;
    return node.isDurable && this.platter.keeps(filePath, node.bytes, 0);
  }

  /** A plant was acknowledged or shown: it is in its place, on the disk. */
  judgeShown(folder: Folder, id: string, content: string, how: string): void {
    if (folder.isRefilled) return; // what is gone is as well shown as what is there
    folder.plants.owe(id, content, how);
    this.#learnPlace(folder, id);
    const place = folder.places.get(id);
    if (place === undefined) throw new Violation("index", `${how}: id ${id} has no line`);
    const { offset, bytes } = place;
    const line = this.bytesOf(folder.logPath)?.subarray(offset, offset + bytes);
    const text = (line ?? "").toString().replace(/^\ufeff/, "");
    if (line === undefined || parsePlant(text)?.content !== content) {
      throw new Violation("not durable", `${how}: the line of id ${id} is not in the log`);
    }
    this.assertDurable(folder.logPath, line, offset, `${how}, id ${id}`);
    if (folder.unsynced !== "all") folder.unsynced.delete(id);
  }

  /** A second process has read this plant from the log, and nobody has shown it yet. */
  oweLogged(folder: Folder, id: string, how: string): void {
    const logged = this.view(folder).log?.plants.find((plant) => plant.id === id);
    if (logged !== undefined) this.judgeShown(folder, id, logged.content, how);
  }

  /** A line, or an end, that is not in its place any more is in a copy that no cut takes. */
  judgeRemoved(folder: Folder, before: View, how: string): void {
    if (before.log !== undefined && !folder.hasLost) {
      this.#judgePieces(folder, folder.logPath, before.log.bytes, how);
    }
  }

  /** The same for the token log, since the round began. */
  judgeRemovedTokens(folder: Folder, how: string): void {
    const { tokensBefore, tokenPath } = folder;
    if (tokensBefore !== undefined) this.#judgePieces(folder, tokenPath, tokensBefore, how);
  }

  /** What others appended while a server ran is where it was, or in a copy. */
  judgeAppended(folder: Folder, how: string): void {
    const { appended, logPath, path: folderPath, hasLost } = folder;
    folder.appended = [];
    const now = this.bytesOf(logPath) ?? Buffer.alloc(0);
    for (const { offset, text } of hasLost ? [] : appended) {
      if (now.subarray(offset, offset + text.length).equals(text)) continue;
      if (this.#durableCopies(folderPath, logPath).some((copy) => copy.includes(text))) continue;
      throw new Violation("removed", `${how}: what others appended at ${offset} is gone`);
    }
  }

  #judgePieces({ path: folderPath }: Folder, filePath: string, old: Buffer, how: string): void {
    const now = this.bytesOf(filePath) ?? Buffer.alloc(0);
    if (now.length >= old.length && now.subarray(0, old.length).equals(old)) return;
    let copies: Buffer[] | undefined;
    for (const { offset, bytes } of piecesOf(old)) {
      // A line feed that was lost may be a zero, which may become one.
      const text = old.subarray(offset, offset + bytes - (old[offset + bytes - 1] === 0 ? 1 : 0));
      if (now.subarray(offset, offset + text.length).equals(text) || isBlank(text)) continue;
      copies ??= this.#durableCopies(folderPath, filePath);
      if (copies.some((copy) => copy.includes(text))) continue;
      const where = `${bytes} bytes at ${offset} of "${filePath}"`;
      throw new Violation("removed", `${how}: ${where} were not set aside`);
    }
  }

  #durableCopies(folderPath: string, of: string): Buffer[] {
    const copies: Buffer[] = [];
    for (const name of this.namesIn(folderPath).filter((each) => KEPT.test(each))) {
      const filePath = path.join(folderPath, name);
      if (this.platter.find(filePath) === this.platter.find(of)) continue;
      const bytes = this.bytesOf(filePath);
      if (bytes !== undefined && this.platter.keeps(filePath, bytes, 0)) copies.push(bytes);
    }
    return copies;
  }

  namesIn(folderPath: string): string[] {
    const node = this.platter.find(folderPath);
    return node?.kind === "folder" ? [...node.names.keys()] : [];
  }

  /** A start leaves nothing that the documents do not name. */
  #judgeNames(folder: Folder, log: Image, how: string, mayLeave: boolean): void {
    for (const name of this.namesIn(folder.path)) {
      // A start leaves an unfinished file beside an empty log.
      if (!NAMED.test(name) && log.bytes.length > 0 && !mayLeave) {
        throw new Violation("leftover", `${how}: it leaves "${name}"`);
      }
      if (!KEPT.test(name) || folder.kept.has(name)) continue;
      const keptPath = path.join(folder.path, name);
      const node = this.platter.find(keptPath);
      // A repair that was killed leaves a second name of the log.
      if (node?.kind !== "file" || node === this.platter.find(folder.logPath)) continue;
      // Others may have copied it, or a start that died may have begun it.
      if (this.isDurable(keptPath)) folder.kept.set(name, Buffer.from(node.bytes));
    }
  }

  /** A start refused the folder for its content. */
  judgeRefused(folder: Folder, before: View, message: string): void {
    const isOld = folder.hasLost || before.losses !== folder.losses;
    const { fault, isUnsynced, log } = isOld ? this.view(folder) : before;
    if (fault === undefined) {
      // After a sync that failed, what looks like a power cut may be what the cache has dropped.
      const now = this.view(folder);
      if ((isDamaged(log) || folder.hasLost) && (isUnsynced || now.isUnsynced)) return;
      throw new Violation("refused", `a start refuses a good folder: ${message}`);
    }
    if (folder.excuse === undefined && !folder.hasLost) {
      throw new Violation(
        "refused",
        `a start refuses, and nobody else did it: ${fault}: ${message}`,
      );
    }
    this.judgeRemoved(folder, before, "a start that refuses");
    if (before.log === undefined && this.bytesOf(folder.logPath) !== undefined) {
      throw new Violation("made", "a start refuses a folder without a log, and makes one");
    }
  }

  /** Others changed the folder: it owes what it owed and still has. */
  absorb(folder: Folder, how: string): void {
    const { log, fault } = this.view(folder);
    const { plants } = folder;
    folder.changes++;
    folder.isRepaired = false;
    const owed = new Map([...plants.owed].map((id) => [id, plants.contentOf(id)]));
    plants.forgiveAll();
    const seen = new Set<string>();
    // A start may complete the last one.
    for (const { id, content } of log === undefined ? [] : withTail(log).plants) {
      plants.send(id, content);
      if (seen.has(id)) folder.repeated.add(id);
      else if (owed.get(id) === content) plants.owe(id, content, how);
      seen.add(id);
    }
    if (fault !== undefined) folder.excuse ??= `${how}: ${fault}`;
  }

  /** The power was cut: what others never synced may be gone. @param before the tokens that processes saw. */
  absorbCut(folder: Folder, before: TokenImage): void {
    this.#absorbLostPlants(folder, "a cut took what others never synced");
    if (folder.hasUnsyncedTokens || folder.tokens.isUncertain) {
      // It may mix old and new sectors of what others wrote over each other.
      folder.tokens.knowMixed(before, this.tokensOf(folder));
      this.adoptTokens(folder);
    }
    folder.hasUnsyncedTokens = false;
    if (folder.hasLostTokens) folder.hasBadTokens = this.tokensOf(folder).bad.length > 0;
    folder.hasLostTokens = false;
    folder.hasLostCheckpoint = false;
  }

  #absorbLostPlants(folder: Folder, how: string): void {
    const { unsynced, plants } = folder;
    // Of a file that was written anew, old and new sectors may be mixed.
    if (unsynced === "all") this.absorb(folder, how);
    else for (const id of unsynced) plants.forgive(id);
    const isOthers = unsynced === "all" || unsynced.size > 0;
    if (isOthers && this.view(folder).fault !== undefined) folder.excuse ??= how;
  }

  /** A cut damaged what was durable: whatever is left counts, and a start may refuse. */
  absorbHarm(folder: Folder): void {
    this.absorb(folder, "a harsh cut");
    folder.excuse ??= "a harsh cut";
    this.adoptTokens(folder);
    folder.kept.clear();
  }

  /** A sync of this file failed: the cache may have dropped what others never synced. */
  absorbLoss(folder: Folder, file: FileNode): void {
    const isLog = this.platter.find(folder.logPath) === file;
    const isCheckpoint = this.platter.find(`${folder.logPath}.checkpoint`) === file;
    if (isLog || isCheckpoint) folder.losses++;
    if (isCheckpoint) folder.hasLostCheckpoint = true;
    if (isLog) {
      folder.hasLost = true; // a view may show what is not there any more
      folder.appended = []; // nobody has synced it
      this.#absorbLostPlants(folder, "a failed sync took what others never synced");
    }
    if (this.platter.find(folder.tokenPath) !== file) return;
    folder.tokensBefore = undefined;
    folder.hasLostTokens = true;
    folder.mayHaveTokenMark = true;
    if (!folder.hasUnsyncedTokens) return;
    folder.tokens.isUncertain = true;
    folder.hasBadTokens = this.tokensOf(folder).bad.length > 0;
  }

  /** Files of a folder are on the disk, whole. */
  assertFolderDurable(folderPath: string, how: string): void {
    for (const name of this.namesIn(folderPath)) {
      const filePath = path.join(folderPath, name);
      const bytes = this.bytesOf(filePath);
      if (bytes !== undefined) this.assertDurable(filePath, bytes, 0, how);
    }
  }
}

/** The plants of a log, and one that lacks only its line feed. */
function withTail(log: Image): Image {
  return { ...log, plants: [...log.plants, ...tailPlant(log)] };
}

/** The ids that are there more than once. */
function repeatedIn({ plants }: Image): Set<string> {
  const seen = new Set<string>();
  const isRepeat = (id: string) => seen.size === seen.add(id).size;
  return new Set(plants.map(({ id }) => id).filter(isRepeat));
}

function isDamaged(log: Image | undefined): boolean {
  return log !== undefined && (log.bad.length > 0 || log.end < log.bytes.length);
}

function isBlank(bytes: Buffer): boolean {
  return /^[ \t\r\n]*$/.test(bytes.toString("latin1"));
}
