/**
 * A file on a simulated disk: the bytes that processes see, and those that are durable.
 *
 * Invariants. A sector is durable, or dirty (the next sync writes it), or lost (a sync of it failed, and the page
 * cache believes that it was written). Every change has a number, also one of the length; lengths become durable
 * in order. A sync covers what the file held when it began.
 */
import type { Random } from "./random.ts";
import type { RuleBook } from "./rules.ts";

export const SECTOR_BYTES = 512;

export interface Dirt {
  readonly change: number;
  readonly sectors: readonly { sector: number; change: number; bytes: Buffer }[];
}

export class FileNode {
  readonly kind = "file";
  bytes: Buffer = Buffer.alloc(0); // never changed in place
  #durable: Buffer = Buffer.alloc(0);
  readonly bad = new Set<number>(); // sectors that cannot be read
  /** The number of the last change of each dirty sector. */
  readonly #dirty = new Map<number, number>();
  readonly #lost = new Set<number>();
  /** The number of the last change of each sector that a sync has covered. */
  readonly #synced = new Map<number, number>();
  /** Changes of the length that are not durable. */
  #steps: { readonly change: number; readonly size: number }[] = [];
  #change = 0;

  /** Whether the page cache has what the disk will never get. */
  get hasLost(): boolean {
    return this.#lost.size > 0;
  }

  isUnreadable(position: number, bytes: number): boolean {
    const end = Math.min(this.bytes.length, position + bytes);
    return this.bad.size > 0 && sectorsOf(position, end).some((sector) => this.bad.has(sector));
  }

  append(bytes: Buffer): void {
    if (bytes.length > 0) this.#setBytes(Buffer.concat([this.bytes, bytes]));
  }

  truncate(size: number): void {
    if (size !== this.bytes.length) this.#setBytes(resized(this.bytes, size));
  }

  /** Takes other bytes, from where the shorter one ends. */
  #setBytes(bytes: Buffer): void {
    this.#change++;
    const [one, other] = [this.bytes.length, bytes.length];
    for (const sector of sectorsOf(Math.min(one, other), Math.max(one, other))) {
      this.#dirty.set(sector, this.#change);
      this.#lost.delete(sector);
      this.bad.delete(sector); // the disk gives it another place
    }
    this.bytes = bytes;
    this.#steps.push({ change: this.#change, size: bytes.length });
  }

  #sector(sector: number): Buffer {
    return this.bytes.subarray(sector * SECTOR_BYTES, (sector + 1) * SECTOR_BYTES);
  }

  /** Begins a sync of all bytes, or of those from a position on. End it with `commit` or `fail`. */
  dirt(start = 0): Dirt {
    const sectors = [...this.#dirty]
      .filter(([sector]) => (sector + 1) * SECTOR_BYTES > start)
      .map(([sector, change]) => ({ sector, change, bytes: this.#sector(sector) }));
    return { change: this.#change, sectors };
  }

  commit(dirt: Dirt): void {
    this.#commitSteps(dirt.change);
    for (const each of dirt.sectors) this.#commitSector(each);
  }

  commitAll(): void {
    this.commit(this.dirt());
  }

  #commitSteps(last: number): void {
    const done = this.#steps.filter(({ change }) => change <= last);
    for (const { size } of done) this.#durable = resized(this.#durable, size);
    this.#steps = this.#steps.slice(done.length);
  }

  #commitSector({ sector, change, bytes }: Dirt["sectors"][number]): void {
    if (this.#dirty.get(sector) === change) this.#dirty.delete(sector);
    // A sync that began before another one, and ends after it, does not bring older bytes back.
    if ((this.#synced.get(sector) ?? 0) > change) return;
    this.#synced.set(sector, change);
    bytes.copy(this.#durable, sector * SECTOR_BYTES);
  }

  /** A sync that fails: some lengths and sectors are written, and all sectors count as written. */
  fail(dirt: Dirt, random: Random): void {
    const steps = this.#steps.filter(({ change }) => change <= dirt.change);
    this.#commitSteps(steps[random.below(steps.length + 1) - 1]?.change ?? 0);
    const first = this.#steps[0]?.change ?? Number.POSITIVE_INFINITY;
    for (const each of dirt.sectors) {
      if (each.change < first && random.chance(0.3)) this.#commitSector(each);
      else if (this.#dirty.get(each.sector) === each.change) {
        this.#dirty.delete(each.sector);
        this.#lost.add(each.sector);
      }
    }
  }

  /** Whether every crash leaves exactly these bytes here. */
  keeps(bytes: Buffer, position: number): boolean {
    const end = position + bytes.length;
    if (this.#steps.some(({ size }) => size < end)) return false;
    const isSame = (image: Buffer) => bytes.equals(image.subarray(position, end));
    return isSame(this.bytes) && isSame(this.#durable);
  }

  /** The file as a power cut leaves it. */
  afterCut(random: Random, rules: RuleBook): FileNode {
    const copy = new FileNode();
    for (const sector of this.bad) copy.bad.add(sector);
    const kept = chooseCount(this.#steps.length, random);
    let image = this.#durable;
    for (const { size } of this.#steps.slice(0, kept)) {
      const before = image.length;
      const isPart = size > before && rules.fires("cut: the length grows in part", random);
      image = resized(image, isPart ? random.between(before, size) : size);
    }
    for (const { size } of this.#steps.slice(kept)) {
      rules.count(size < image.length ? "cut: a truncation is lost" : "cut: the length is lost");
    }
    image = Buffer.from(image);
    const share = random.pick(SHARES);
    for (const sector of this.#dirty.keys()) {
      const at = sector * SECTOR_BYTES;
      if (at >= image.length) continue;
      if (random.chance(share)) {
        rules.count("cut: a sector is new");
        this.#sector(sector).copy(image, at);
      } else {
        rules.count(at < this.#durable.length ? "cut: a sector is old" : "cut: a sector is zeros");
      }
    }
    copy.bytes = image;
    copy.#durable = Buffer.from(image);
    return copy;
  }

  /** Changes what is durable, and what is seen of it. All of the file must be durable. */
  rot(change: (bytes: Buffer) => void): void {
    this.bytes = Buffer.from(this.bytes);
    change(this.#durable);
    change(this.bytes);
  }
}

/** How much reaches the disk in a power cut: with one share for all, extremes would be rare. */
const SHARES: readonly number[] = [0.1, 0.5, 0.5, 0.9, 1, 0];

export function chooseCount(count: number, random: Random): number {
  const share = random.pick(SHARES);
  if (count === 0 || share === 0) return 0;
  return share === 1 ? count : random.between(0, count);
}

function sectorsOf(start: number, end: number): number[] {
  const first = Math.floor(start / SECTOR_BYTES);
  const count = Math.max(0, Math.ceil(end / SECTOR_BYTES) - first);
  return Array.from({ length: count }, (_, at) => first + at);
}

function resized(bytes: Buffer, size: number): Buffer {
  const copy = Buffer.alloc(size);
  bytes.copy(copy);
  return copy;
}
