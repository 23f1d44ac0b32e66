/**
 * A file on a simulated disk: the bytes that processes see, and those that are durable.
 *
 * Invariants. A sector is durable, or dirty (the next sync writes it), or lost (a sync of it failed, and the
 * cache believes that it was written). The length changes in steps, which become durable in order. What a sync
 * covers is what the file held when it began, whatever is written meanwhile.
 */
import type { Random } from "./random.ts";
import type { RuleBook, RuleName } from "./rules.ts";

export const SECTOR_BYTES = 512;

/** `nothing` and `everything` of what is not durable reaches the disk, or what chance decides. */
export type CutKind = "nothing" | "everything" | "chance";

/** What a sync covers. */
export interface Dirt {
  /** In the order in which they begin. */
  readonly number: number;
  readonly sectors: readonly number[];
  readonly step: number;
  /** Sectors that were changed since, as they were. */
  readonly copies: Map<number, Buffer>;
}

interface SizeStep {
  readonly number: number;
  readonly size: number;
}

export abstract class BaseNode {
  readonly ino: bigint;
  nlink = 0;
  mtimeMs = 0;
  ctimeMs = 0;
  mode = 0;

  constructor(ino: bigint) {
    this.ino = ino;
  }
}

export class FileNode extends BaseNode {
  readonly kind = "file";
  size = 0;
  durableSize = 0;
  /** How many descriptors are open. */
  opens = 0;
  /** Failures of a sync or of a write behind; a descriptor gets each once. */
  failures = 0;
  /** Whether somebody got the last failure: a new descriptor does not get it then. */
  isFailureKnown = true;
  /** Sectors that cannot be read. */
  readonly bad = new Set<number>();
  readonly #dirty = new Set<number>();
  readonly #lost = new Set<number>();
  /** Lost sectors that stay lost however often they are written again. */
  readonly #stubborn = new Set<number>();
  /** Sectors that became durable before a change of the length that they follow: it does not clear them. */
  readonly #fresh = new Set<number>();
  /** The syncs under way. */
  readonly #flights = new Set<Dirt>();
  #bytes: Buffer = Buffer.alloc(0);
  #durable: Buffer = Buffer.alloc(0);
  #steps: SizeStep[] = [];
  #step = 0;
  #syncs = 0;

  /** What processes see. Valid until the next change. */
  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.size);
  }

  /** What a cut leaves if nothing else reaches the disk. Valid until the next change. */
  get durable(): Buffer {
    return this.#durable.subarray(0, this.durableSize);
  }

  /** Whether a cut could change it. */
  get isDurable(): boolean {
    return this.#dirty.size === 0 && this.#lost.size === 0 && this.#steps.length === 0;
  }

  get hasLost(): boolean {
    return this.#lost.size > 0;
  }

  /** Fills the target as far as there are bytes. */
  read(target: Buffer, position: number): number {
    const end = Math.min(this.size, position + target.length);
    return end <= position ? 0 : this.#bytes.copy(target, 0, position, end);
  }

  hasBad(position: number, bytes: number): boolean {
    if (this.bad.size === 0) return false;
    return sectorsOf(position, Math.min(this.size, position + bytes)).some((sector) =>
      this.bad.has(sector),
    );
  }

  write(bytes: Buffer, position: number): void {
    if (bytes.length === 0) return;
    const end = position + bytes.length;
    this.#touch(Math.min(position, this.size), end);
    bytes.copy(this.#bytes, position);
    if (end > this.size) this.#resize(end);
  }

  truncate(size: number): void {
    if (size === this.size) return;
    this.#touch(Math.min(size, this.size), Math.max(size, this.size));
    if (size < this.size) {
      this.#bytes.fill(0, size, this.size);
      this.#giveBack(size);
    }
    this.#resize(size);
  }

  /** The blocks after the end are free; the next ones are others. */
  #giveBack(size: number): void {
    for (const sector of this.#stubborn) {
      if (sector * SECTOR_BYTES >= size) this.#stubborn.delete(sector);
    }
  }

  /** Call it before the change. */
  #touch(start: number, end: number): void {
    this.#bytes = withRoom(this.#bytes, end);
    for (const sector of sectorsOf(start, end)) {
      for (const { sectors, copies } of this.#flights) {
        if (copies.has(sector) || !sectors.includes(sector)) continue;
        const at = sector * SECTOR_BYTES;
        copies.set(sector, Buffer.from(this.#bytes.subarray(at, at + SECTOR_BYTES)));
      }
      this.#dirty.add(sector);
      this.#lost.delete(sector);
      this.#fresh.delete(sector);
      this.bad.delete(sector); // the disk gives it another place
    }
  }

  #resize(size: number): void {
    this.size = size;
    this.#steps.push({ number: ++this.#step, size });
  }

  /** Begins a sync of all bytes, or of these. End it with `commit`, `fail` or `abandon`. */
  dirt(start = 0, end = Number.POSITIVE_INFINITY): Dirt {
    const sectors =
      end === Number.POSITIVE_INFINITY
        ? [...this.#dirty]
        : sectorsOf(start, end).filter((sector) => this.#dirty.has(sector));
    const number = ++this.#syncs;
    const dirt = { number, sectors, step: this.#step, copies: new Map<number, Buffer>() };
    this.#flights.add(dirt);
    return dirt;
  }

  /** Makes durable what a sync covers. */
  commit(dirt: Dirt): void {
    this.#flights.delete(dirt);
    this.#commitSteps(dirt.step);
    for (const sector of dirt.sectors) this.#commitSector(sector, dirt);
  }

  /** The process that synced is dead. */
  abandon(dirt: Dirt): void {
    this.#flights.delete(dirt);
  }

  commitAll(): void {
    this.commit(this.dirt());
  }

  #commitSteps(last: number): void {
    let done = 0;
    for (; done < this.#steps.length; done++) {
      const { number, size } = this.#steps[done] as SizeStep;
      if (number > last) break;
      if (size < this.durableSize) this.#clearCut(this.#durable, size, this.durableSize);
      this.durableSize = size;
    }
    if (done === 0) return;
    this.#steps.splice(0, done);
    if (this.#steps.length === 0) this.#fresh.clear();
    this.#durable = withRoom(this.#durable, this.durableSize);
  }

  /** The file was cut: makes what it had zeros. */
  #clearCut(image: Buffer, start: number, end: number): void {
    for (const sector of sectorsOf(start, end)) {
      const at = sector * SECTOR_BYTES;
      if (!this.#fresh.has(sector)) clear(image, Math.max(start, at), at + SECTOR_BYTES);
    }
  }

  #commitSector(sector: number, { number, copies }: Dirt): void {
    const copy = copies.get(sector);
    if (copy === undefined) this.#dirty.delete(sector); // else it was changed since
    if (this.#stubborn.has(sector)) {
      if (copy === undefined) this.#lost.add(sector);
      return;
    }
    this.#durable = withRoom(this.#durable, (sector + 1) * SECTOR_BYTES);
    const at = sector * SECTOR_BYTES;
    if (copy === undefined) this.#bytes.copy(this.#durable, at, at, at + SECTOR_BYTES);
    else copy.copy(this.#durable, at);
    if (copy === undefined && this.#steps.length > 0) this.#fresh.add(sector);
    // A sync that began before this one, and ends after it, does not bring older bytes back.
    for (const older of this.#flights) {
      if (older.number > number) break;
      older.copies.set(sector, Buffer.from(this.#durable.subarray(at, at + SECTOR_BYTES)));
    }
  }

  /** A sync, or a write behind, that fails: some sectors are written, the others are taken for written. */
  fail(dirt: Dirt, random: Random, rules: RuleBook): void {
    this.#flights.delete(dirt);
    this.failures++;
    this.isFailureKnown = false;
    const [first = 0] = this.#steps.map(({ number }) => number);
    this.#commitSteps(random.between(first - 1, dirt.step));
    const pages = random.pick(PAGES.filter((name) => rules.isOn(name)));
    rules.count(pages);
    // Btrfs, which reverts, writes to other blocks the next time.
    const mayStay = pages !== "sync: pages are reverted";
    const isStubborn = mayStay && rules.fires("sync: a rewrite in place stays lost", random);
    for (const sector of dirt.sectors) {
      if (dirt.copies.has(sector)) continue; // it is dirty again
      if (random.chance(0.3)) {
        this.#commitSector(sector, dirt);
        continue;
      }
      this.#dirty.delete(sector);
      this.#lost.add(sector);
      if (isStubborn && this.#isUnwritten(sector)) this.#stubborn.add(sector);
      if (pages !== "sync: pages are kept") this.#forget(sector);
    }
    if (pages === "sync: pages are reverted" && this.#step === dirt.step) {
      if (this.durableSize < this.size) this.#bytes.fill(0, this.durableSize, this.size);
      this.#bytes = withRoom(this.#bytes, this.durableSize);
      this.size = this.durableSize;
      this.#steps = [];
      clear(this.#durable, this.durableSize, this.#durable.length);
      this.#giveBack(this.size);
    }
  }

  /** Whether the sector has a block, and the disk never got anything of it. */
  #isUnwritten(sector: number): boolean {
    const at = sector * SECTOR_BYTES;
    if (at < this.durableSize || at >= this.size) return false;
    return this.#durable.subarray(at, at + SECTOR_BYTES).every((byte) => byte === 0);
  }

  /** The cache has the sector as the disk has it: zeros where the file was cut, also if a power cut undid that. */
  #forget(sector: number): void {
    const at = sector * SECTOR_BYTES;
    const shortest = Math.min(this.durableSize, ...this.#steps.map(({ size }) => size));
    const old = Buffer.alloc(SECTOR_BYTES);
    if (this.#fresh.has(sector)) this.#durable.copy(old, 0, at, at + SECTOR_BYTES);
    else if (shortest > at) this.#durable.copy(old, 0, at, Math.min(shortest, at + SECTOR_BYTES));
    old.copy(this.#bytes, at, 0, Math.max(0, this.size - at));
  }

  /** Lost pages leave the cache; with the last descriptor the failure is forgotten. */
  dropLost(rules: RuleBook): void {
    for (const sector of this.#lost) this.#forget(sector);
    this.#lost.clear();
    if (this.opens > 0 || this.isFailureKnown) return;
    this.isFailureKnown = true;
    rules.count("sync: nobody gets a failure again");
  }

  /** Whether a read that goes past the cache finds these bytes. It writes dirty sectors before. */
  holds(bytes: Buffer, position: number): boolean {
    const end = position + bytes.length;
    if (end > this.size) return false;
    for (const sector of sectorsOf(position, end)) {
      if (this.bad.has(sector)) return false;
      const isCached = this.#dirty.has(sector) && !this.#stubborn.has(sector);
      const start = Math.max(position, sector * SECTOR_BYTES);
      const stop = Math.min(end, (sector + 1) * SECTOR_BYTES);
      const wanted = bytes.subarray(start - position, stop - position);
      if (!wanted.equals((isCached ? this.#bytes : this.#durable).subarray(start, stop)))
        return false;
    }
    return true;
  }

  /** Whether every crash leaves exactly these bytes here. */
  keeps(bytes: Buffer, position: number): boolean {
    const end = position + bytes.length;
    if (end > this.durableSize || end > this.size) return false;
    if (this.#steps.some(({ size }) => size < end)) return false;
    if (this.hasBad(position, bytes.length)) return false;
    return (
      bytes.equals(this.#bytes.subarray(position, end)) &&
      bytes.equals(this.#durable.subarray(position, end))
    );
  }

  /** The file as a cut leaves it. */
  afterCut(kind: CutKind, random: Random, rules: RuleBook): FileNode {
    const copy = new FileNode(this.ino);
    for (const sector of this.bad) copy.bad.add(sector);
    copy.load(this.#afterCut(kind, random, rules));
    return copy;
  }

  #afterCut(kind: CutKind, random: Random, rules: RuleBook): Buffer {
    if (this.#steps.length === 0 && this.#dirty.size === 0) return Buffer.from(this.durable);
    const count = this.#chooseSteps(kind, random, rules);
    let image: Buffer = Buffer.from(this.#durable);
    let size = this.durableSize;
    for (const step of this.#steps.slice(0, count)) {
      if (step.size < size) this.#clearCut(image, step.size, size);
      else if (kind === "chance" && rules.draws("cut: the length grows in part", random)) {
        size = Math.min(step.size, roundUp(random.between(size, step.size)));
        if (size < step.size) rules.count("cut: the length grows in part");
        continue;
      }
      size = step.size;
    }
    image = withRoom(image, roundUp(size));
    const share = kind === "nothing" ? 0 : kind === "everything" ? 1 : random.pick(SHARES);
    for (const sector of this.#dirty) {
      const at = sector * SECTOR_BYTES;
      if (at >= size) continue;
      const missed = at < this.durableSize ? "cut: a sector is old" : "cut: a sector is zeros";
      const isNew = share >= 1 || random.chance(share);
      if (kind !== "chance") {
        if (isNew) this.#bytes.copy(image, at, at, at + SECTOR_BYTES);
      } else if (rules.isOn(isNew ? "cut: a sector is new" : missed) === isNew) {
        this.#land(sector, image, random, rules);
      } else this.#miss(sector, missed, image, random, rules);
    }
    return image.subarray(0, size);
  }

  /** How many changes of the length are durable. */
  #chooseSteps(kind: CutKind, random: Random, rules: RuleBook): number {
    const all = this.#steps.length;
    const count = chooseCount(kind, all, random);
    if (kind !== "chance" || count === all) return count;
    const lost = this.#steps.slice(count).map(({ size }) => size);
    const isCut = lost.some(
      (size, at) => size < (at === 0 ? this.durableSize : (lost[at - 1] ?? 0)),
    );
    const rule = isCut ? "cut: a truncation is lost" : "cut: the length is lost";
    if (!rules.isOn(rule)) return all;
    rules.count(rule);
    return count;
  }

  /** A dirty sector that reached the disk. */
  #land(sector: number, image: Buffer, random: Random, rules: RuleBook): void {
    const at = sector * SECTOR_BYTES;
    rules.count("cut: a sector is new");
    if (sector > 0 && rules.fires("harsh: a durable neighbour is damaged", random)) {
      image.fill(0, at - SECTOR_BYTES, at);
    }
    const isPart = rules.fires("harsh: a sector is written in part", random);
    const end = at + (isPart ? random.below(SECTOR_BYTES) : SECTOR_BYTES);
    if (end > at) this.#bytes.copy(image, at, at, end);
  }

  /** A dirty sector that did not reach the disk. */
  #miss(sector: number, rule: RuleName, image: Buffer, random: Random, rules: RuleBook): void {
    const at = sector * SECTOR_BYTES;
    rules.count(rule);
    if (rule === "cut: a sector is old") {
      if (!rules.fires("harsh: an overwritten sector is zeros", random)) return;
      image.fill(0, at, at + SECTOR_BYTES);
      return;
    }
    rules.count("cut: the length comes first");
    if (!rules.fires("harsh: a sector has stale bytes", random)) return;
    const from = random.below(Math.ceil(this.size / SECTOR_BYTES)) * SECTOR_BYTES;
    this.#bytes.copy(image, at, from, from + SECTOR_BYTES);
  }

  /** Takes these bytes as what is durable and seen. */
  load(bytes: Buffer): void {
    this.#bytes = withRoom(bytes, roundUp(bytes.length));
    this.#durable = Buffer.from(this.#bytes);
    this.size = bytes.length;
    this.durableSize = bytes.length;
  }

  /** Changes one durable bit. Returns its byte. */
  flip(random: Random): number {
    const at = random.below(this.durableSize);
    const bit = 1 << random.below(8);
    this.#durable[at] = (this.#durable[at] as number) ^ bit;
    if (!this.#dirty.has(Math.floor(at / SECTOR_BYTES))) {
      this.#bytes[at] = (this.#bytes[at] as number) ^ bit;
    }
    return at;
  }

  /** Makes a durable sector zeros. */
  blank(sector: number): void {
    const at = sector * SECTOR_BYTES;
    clear(this.#durable, at, at + SECTOR_BYTES);
    if (!this.#dirty.has(sector)) clear(this.#bytes, at, at + SECTOR_BYTES);
  }
}

const PAGES: readonly RuleName[] = [
  "sync: pages are kept",
  "sync: pages are reverted",
  "sync: pages are gone",
];

/** How many of the dirty sectors reach the disk in a cut: with one share for all, extremes would be rare. */
const SHARES: readonly number[] = [0.1, 0.5, 0.5, 0.9, 1, 0];

/** How many of some steps in order happen. */
export function chooseCount(kind: CutKind, count: number, random: Random): number {
  if (kind === "nothing" || count === 0) return 0;
  if (kind === "everything") return count;
  const share = random.pick(SHARES);
  return share === 0 ? 0 : share === 1 ? count : random.between(0, count);
}

/** Makes bytes zeros, as far as the buffer goes. */
function clear(bytes: Buffer, start: number, end: number): void {
  if (start < bytes.length) bytes.fill(0, start, Math.min(end, bytes.length));
}

function roundUp(bytes: number): number {
  return Math.ceil(bytes / SECTOR_BYTES) * SECTOR_BYTES;
}

function sectorsOf(start: number, end: number): number[] {
  const sectors: number[] = [];
  const last = Math.ceil(end / SECTOR_BYTES);
  for (let sector = Math.floor(start / SECTOR_BYTES); sector < last; sector++) sectors.push(sector);
  return sectors;
}

/** Whole sectors. */
function withRoom(bytes: Buffer, size: number): Buffer {
  if (bytes.length >= size && bytes.length % SECTOR_BYTES === 0) return bytes;
  const doubled = bytes.length >= size ? 0 : bytes.length * 2;
  const larger = Buffer.alloc(roundUp(Math.max(size, doubled, SECTOR_BYTES)));
  bytes.copy(larger);
  return larger;
}
