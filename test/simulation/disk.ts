/**
 * The disk as one process of a simulation sees it: the port of `src/log/disk.ts` over a platter.
 *
 * Invariants. Each operation has three moments: it is issued, it is applied (every process sees what it did),
 * and it returns (what it promised is durable). The process may die at each of them. Then its operations never
 * return, and those that return no promise throw; what was under way may still land, in part.
 */
import path from "node:path";
import type {
  Disk,
  FileState,
  FolderEntry,
  NamedText,
  OpenFile,
  ReadDone,
} from "../../src/log/disk.ts";
import type { SimulatedClock } from "./clock.ts";
import {
  type FileNode,
  type Platter,
  type PlatterNode,
  SECTOR_BYTES,
  SystemError,
} from "./platter.ts";
import type { Dirt } from "./platter-file.ts";
import { hashText, type Random } from "./random.ts";
import type { RuleBook, RuleName } from "./rules.ts";

export interface DiskOptions {
  readonly platter: Platter;
  readonly clock: SimulatedClock;
  readonly random: Random;
  readonly rules: RuleBook;
}

/** What a process gets that died in the middle of a call. Nobody sees it but the dead. */
export class DeadError extends Error {}

export type MomentKind = "issued" | "applied" | "returned";

/** A call and the file it is for. */
interface Operation {
  readonly call: string;
  readonly filePath: string;
  readonly random: Random;
  readonly hash: number;
}

/** What an operation does. Each may throw the system's error. */
interface Work<T> {
  apply(random: Random): T;
  /** Makes durable what was promised. */
  finish?(value: T, random: Random): void;
  /** What of it happens if the process dies before it was applied: all, or a part that `random` chooses. */
  land?(random: Random, isWhole: boolean): void;
  /** The process dies after it was applied. */
  abandon?(value: T): void;
}

/** An operation that has not returned. */
interface Flight {
  readonly operation: Operation;
  readonly work: Work<unknown>;
  applied: { readonly value: unknown } | undefined;
}

/** The calls of one kind for one file. */
interface Calls extends Pick<Operation, "hash"> {
  count: number;
}

const LATENCY_MS = 0.1;
/** How long it takes to make the name that remembers a failed sync. */
const REMEMBERING_MOMENTS = 6;

export class SimulatedDisk implements Disk {
  readonly platter: Platter;
  /** Resolves when the process has died. */
  readonly crashed: Promise<void>;
  /** How many moments there were. */
  moments = 0;
  isDead = false;
  /**
   * Receives each moment, before a crash at it, and before the process learns of it: another program acts in
   * the middle of a call here. A call that fails is issued and returned, and not applied.
   */
  onMoment: ((kind: MomentKind, call: string, filePath: string) => void) | undefined;
  readonly clock: SimulatedClock;
  readonly rules: RuleBook;
  /** @internal */
  readonly random: Random;
  /** Open files. @internal */
  readonly files = new Set<SimulatedFile>();
  readonly #flights = new Set<Flight>();
  readonly #calls = new Map<string, Calls>();
  #crashAt = Number.POSITIVE_INFINITY;
  #crashOf = "any call";
  #momentsOf = 0;
  #trace = 0;
  /** The last sync whose failure the process was told. */
  #told:
    | { readonly filePath: string; readonly node: FileNode; readonly moment: number }
    | undefined;
  #reportCrash: () => void = () => {};

  constructor({ platter, clock, random, rules }: DiskOptions) {
    this.platter = platter;
    this.clock = clock;
    this.rules = rules;
    this.random = random.fork("disk");
    this.crashed = new Promise((resolve) => {
      this.#reportCrash = resolve;
    });
  }

  /** Has the process die at this moment, counted from 1: one of all, or of those of one kind of call. */
  crashAt(moment: number, of = "any call"): void {
    this.#crashAt = moment;
    this.#crashOf = of;
    this.#momentsOf = of === "any call" ? this.moments : 0;
  }

  /** A hash of all moments and their times. */
  get trace(): number {
    return this.#trace;
  }

  /** The process dies now; the platter stays as it is from here on. */
  die(): void {
    if (this.isDead) return;
    this.isDead = true;
    this.#forgetTold();
    for (const { operation, work, applied } of this.#flights) {
      if (applied !== undefined) {
        work.abandon?.(applied.value);
        continue;
      }
      if (work.land === undefined) continue;
      const random = operation.random.fork("landing");
      const isWhole = this.rules.fires("crash: a write lands whole", random);
      if (!isWhole && !this.rules.fires("crash: a write lands in part", random)) continue;
      try {
        work.land(random, isWhole);
      } catch {} // the dead are not told
    }
    this.#flights.clear();
    for (const file of this.files) file.drop();
    this.files.clear();
    this.#reportCrash();
  }

  #begin(call: string, filePath: string): Operation {
    const key = `${call} ${filePath}`;
    let calls = this.#calls.get(key);
    if (calls === undefined) {
      calls = { count: 0, hash: hashText(key)[0] };
      this.#calls.set(key, calls);
    }
    calls.count++;
    const random = this.random.fork(`${key} ${calls.count}`);
    return { call, filePath, random, hash: calls.hash };
  }

  /** A sync of this file has failed, and the process is told. @internal */
  tell(filePath: string, node: FileNode): void {
    node.isFailureKnown = true;
    this.#told = { filePath, node, moment: this.moments };
  }

  /**
   * The process dies before it can remember that a sync has failed. No program can help that, so the model has
   * the next one told again: the only place where it is kinder than a kernel.
   */
  #forgetTold(): void {
    if (this.#told === undefined || this.moments - this.#told.moment > REMEMBERING_MOMENTS) return;
    const { filePath, node } = this.#told;
    const isRemembered = this.platter.find(`${filePath}.checkpoint.unsynced`) !== undefined;
    if (!isRemembered) node.isFailureKnown = false;
  }

  /** Returns false if the process has died at it. */
  #passes(kind: MomentKind, { call, filePath, hash }: Operation): boolean {
    this.moments++;
    const time = Math.floor(this.clock.steadyMs() * 1000);
    this.#trace = (Math.imul(this.#trace ^ hash ^ time, 0x9e3779b1) + kind.length) >>> 0;
    this.onMoment?.(kind, call, filePath);
    if (this.#crashOf === call || this.#crashOf === "any call") this.#momentsOf++;
    if (this.#momentsOf >= this.#crashAt && !this.isDead) {
      this.rules.count(`crash: ${kind}`);
      this.die();
    }
    return !this.isDead;
  }

  /** An operation in the turn of its call. @internal */
  now<T>(call: string, filePath: string, apply: (random: Random) => T, fault?: Fault): T {
    if (this.isDead) throw new DeadError(call);
    const operation = this.#begin(call, filePath);
    const { random } = operation;
    try {
      this.#requireLife("issued", operation);
      if (this.rules.fires("time: a call that does not wait is slow", random)) {
        this.clock.freeze(random.between(500, 5000));
      }
      this.maybeFail(fault, call, filePath, random);
      const value = apply(random);
      this.#requireLife("applied", operation);
      this.#requireLife("returned", operation);
      return value;
    } catch (error) {
      if (error instanceof DeadError) this.rules.count("crash: in a call that does not wait");
      throw error;
    }
  }

  #requireLife(kind: MomentKind, operation: Operation): void {
    if (!this.#passes(kind, operation)) throw new DeadError(operation.call);
  }

  /** @throws SystemError if chance will have it. @internal */
  maybeFail(fault: Fault | undefined, call: string, filePath: string, random: Random): void {
    if (fault === undefined || !this.rules.fires(fault.rule, random)) return;
    throw new SystemError(random.pick(fault.codes), call, filePath);
  }

  /** An operation that takes its time. @internal */
  later<T>(call: string, filePath: string, work: Work<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.isDead) return;
      const operation = this.#begin(call, filePath);
      const flight: Flight = { operation, work: work as Work<unknown>, applied: undefined };
      this.#flights.add(flight);
      if (!this.#passes("issued", operation)) return;
      const { random } = operation;
      const end = (settle: () => void) => {
        this.#wait(operation, () => {
          if (this.#flights.values().next().value !== flight) {
            this.rules.count("time: completions change places");
          }
          this.#flights.delete(flight);
          settle();
        });
      };
      const finish = (value: T) => {
        try {
          work.finish?.(value, random);
        } catch (error) {
          if (this.#passes("returned", operation)) reject(error);
          return;
        }
        if (this.#passes("returned", operation)) resolve(value);
      };
      this.#wait(operation, () => {
        let value: T;
        try {
          value = work.apply(random);
        } catch (error) {
          end(() => {
            if (this.#passes("returned", operation)) reject(error);
          });
          return;
        }
        flight.applied = { value };
        if (this.#passes("applied", operation)) end(() => finish(value));
      });
    });
  }

  /** Goes on later, or never. */
  #wait({ call, random }: Operation, then: () => void): void {
    if (this.rules.fires("time: never", random)) return;
    let ms = random.exponential(LATENCY_MS);
    const isSlow =
      this.rules.fires("time: slow", random) ||
      (call === "append" && this.rules.fires("time: an append is slow", random));
    if (isSlow) ms += random.between(500, 8000);
    this.clock.after(ms, () => {
      if (!this.isDead) then();
    });
  }

  #openNode(filePath: string, random: Random): FileNode {
    const node = this.platter.find(filePath);
    if (node === undefined) throw new SystemError("ENOENT", "open", filePath);
    if (node.kind === "file") {
      this.maybeDropLost(node, random);
      return node;
    }
    const found = node.kind === "folder" ? "a folder" : "a device";
    throw new Error(`expected a regular file, got ${found}`);
  }

  /** @internal */
  maybeDropLost(node: FileNode, random: Random): void {
    if (!node.hasLost || !this.rules.fires("sync: lost pages leave the cache", random)) return;
    this.platter.dropLost(node);
  }

  #openFile(filePath: string, random: Random): SimulatedFile {
    this.maybeFail(OPEN_FAULT, "open", filePath, random);
    return new SimulatedFile(this, filePath, this.#openNode(filePath, random), false);
  }

  open(filePath: string): Promise<OpenFile> {
    return this.later("open", filePath, {
      apply: (random) => this.#openFile(filePath, random),
      abandon: (file) => file.drop(),
    });
  }

  openForChanges(filePath: string): Promise<OpenFile> {
    const make = (random: Random) => {
      if (this.platter.find(filePath) !== undefined) return;
      this.platter.create(filePath, "file", "open", random);
    };
    return this.later("openForChanges", filePath, {
      apply: (random) => {
        if (random.chance(0.5)) make(random); // it may fail after that, too
        this.maybeFail(OPEN_FAULT, "open", filePath, random);
        make(random);
        return new SimulatedFile(this, filePath, this.#openNode(filePath, random), true);
      },
      land: make,
      abandon: (file) => file.drop(),
    });
  }

  async openText(filePath: string, chunkBytes: number): Promise<NamedText | undefined> {
    const file = await this.later("openText", filePath, {
      apply: (random) => {
        if (this.platter.find(filePath)?.kind === "folder") return undefined;
        return this.#openFile(filePath, random);
      },
      abandon: (opened) => opened?.drop(),
    });
    return file && { text: readChunks(file, chunkBytes), bytes: file.size };
  }

  find(filePath: string): FileState | undefined {
    return this.now("find", filePath, () => stateOf(this.platter.find(filePath)), FIND_FAULT);
  }

  findEntry(filePath: string): FileState | undefined {
    return this.now("findEntry", filePath, () => stateOf(this.platter.find(filePath)), FIND_FAULT);
  }

  findLater(filePath: string): Promise<FileState | undefined> {
    return this.later("findLater", filePath, {
      apply: (random) => {
        this.maybeFail(FIND_FAULT, "stat", filePath, random);
        return stateOf(this.platter.find(filePath));
      },
    });
  }

  realPath(filePath: string): string {
    return this.now("realPath", filePath, () => {
      if (this.platter.find(filePath) !== undefined) return path.resolve(filePath);
      throw new SystemError("ENOENT", "realpath", filePath);
    });
  }

  list(folder: string): FolderEntry[] {
    const read = (random: Random) => {
      const { names } = this.platter.folder(folder, "scandir");
      return random.shuffle([...names].map(([name, { kind }]): FolderEntry => ({ name, kind })));
    };
    return this.now("list", folder, read, LIST_FAULT);
  }

  #change(call: string, filePath: string, change: (random: Random) => void): void {
    this.now(call, filePath, (random) => {
      const isDone = random.chance(0.5); // it may fail all the same, as with `mount -o dirsync`
      if (isDone) change(random);
      this.maybeFail(NAMES_FAULT, call, filePath, random);
      if (!isDone) change(random);
    });
  }

  rename(from: string, to: string): void {
    this.#change("rename", `${from} ${to}`, () => this.platter.rename(from, to));
  }

  link(from: string, to: string): void {
    this.#change("link", `${from} ${to}`, () => this.platter.link(from, to));
  }

  unlink(filePath: string): void {
    this.#change("unlink", filePath, () => this.platter.unlink(filePath));
  }

  makeFolder(folder: string): void {
    this.#change("makeFolder", folder, (random) => {
      this.platter.create(folder, "folder", "mkdir", random);
    });
  }

  removeFolder(folder: string): void {
    this.#change("removeFolder", folder, () => this.platter.removeFolder(folder));
  }

  async syncFolder(folder: string): Promise<void> {
    await this.later("syncFolder", folder, {
      apply: () => this.platter.folder(folder, "open"),
      finish: (node, random) => {
        if (!this.platter.isReadOnly) {
          this.platter.isReadOnly = this.rules.fires("syncFolder: fails for good", random);
          const isFailing =
            this.platter.isReadOnly || this.rules.fires("syncFolder: fails", random);
          if (!isFailing) return this.platter.commitNames(node);
          this.platter.failNames(random);
        }
        throw new SystemError("EIO", "fsync", folder);
      },
    });
  }

  holds(filePath: string, bytes: Buffer, position: number): Promise<boolean> {
    return this.later("holds", filePath, {
      apply: (random) => {
        const node = this.platter.find(filePath);
        if (node?.kind !== "file") return true;
        return (
          this.rules.fires("holds: the system cannot tell", random) || node.holds(bytes, position)
        );
      },
    });
  }

  fileSystem(folder: string): ReturnType<Disk["fileSystem"]> {
    return this.now("fileSystem", folder, () => {
      this.platter.folder(folder, "statfs");
      return { type: EXT4, bavail: 1, files: 2, ffree: 1 };
    });
  }
}

/** Its magic number. */
const EXT4 = 0xef53;

/** A call that fails, and with what. */
interface Fault {
  readonly rule: RuleName;
  readonly codes: readonly string[];
}

const OPEN_FAULT: Fault = { rule: "open: fails", codes: ["EMFILE", "EIO", "EACCES"] };
const FIND_FAULT: Fault = { rule: "find: fails", codes: ["EIO", "EACCES"] };
const LIST_FAULT: Fault = { rule: "list: fails", codes: ["EIO", "EMFILE"] };
const NAMES_FAULT: Fault = { rule: "names: a change fails", codes: ["EIO", "ENOSPC", "EACCES"] };
const READ_FAULT: Fault = { rule: "read: fails", codes: ["EIO"] };
const TRUNCATE_FAULT: Fault = { rule: "truncate: fails", codes: ["EIO"] };
const OVERWRITE_FAULT: Fault = { rule: "overwrite: fails", codes: ["EIO", "ENOSPC"] };
const APPEND_FAULTS: readonly Fault[] = [
  { rule: "append: fails before it writes", codes: ["EIO"] },
  { rule: "append: no room", codes: ["ENOSPC"] },
  { rule: "append: quota", codes: ["EDQUOT"] },
  { rule: "append: too large", codes: ["EFBIG"] },
];

/** Bytes that a process sees, and that are not yet durable. */
interface Written {
  readonly bytes: number;
  readonly dirt: Dirt;
}

/** One of the two descriptors: each gets a failure once. */
interface Cursor {
  failures: number;
  /** Whether what it gets next happened before it was opened. */
  isOld: boolean;
}

class SimulatedFile implements OpenFile {
  readonly #disk: SimulatedDisk;
  readonly #path: string;
  readonly #node: FileNode;
  readonly #isForChanges: boolean;
  readonly #forChanges: Cursor;
  readonly #forAppends: Cursor;
  #isOpen = true;

  constructor(disk: SimulatedDisk, filePath: string, node: FileNode, isForChanges: boolean) {
    this.#disk = disk;
    this.#path = filePath;
    this.#node = node;
    this.#isForChanges = isForChanges;
    node.opens++;
    disk.files.add(this);
    const isOld =
      !node.isFailureKnown && disk.rules.isOn("sync: a new descriptor gets an old failure");
    const cursor = { failures: isOld ? node.failures - 1 : node.failures, isOld };
    this.#forChanges = { ...cursor };
    this.#forAppends = { ...cursor };
  }

  get size(): number {
    return this.#node.size;
  }

  #use(call: string, isChange = false): FileNode {
    if (!this.#isOpen || (isChange && !this.#isForChanges)) throw new SystemError("EBADF", call);
    return this.#node;
  }

  state(): FileState {
    return this.#disk.now("state", this.#path, () => stateOf(this.#use("fstat")) as FileState);
  }

  /** @throws SystemError if the sync fails by this code, or for a failure that this descriptor did not get yet. */
  #endSync(dirt: Dirt, cursor: Cursor, random: Random, code?: string): void {
    const { platter, rules } = this.#disk;
    if (code !== undefined) platter.failSync(this.#node, dirt, random);
    else if (!platter.isReadOnly) this.#node.commit(dirt);
    else {
      this.#node.abandon(dirt);
      throw new SystemError("EIO", "fsync", this.#path);
    }
    if (cursor.failures === this.#node.failures) return;
    if (code === undefined) {
      rules.count("sync: reports an earlier failure");
      if (cursor.isOld) rules.count("sync: a new descriptor gets an old failure");
    }
    cursor.failures = this.#node.failures;
    cursor.isOld = false;
    this.#disk.tell(this.#path, this.#node);
    throw new SystemError(code ?? "EIO", "fsync", this.#path);
  }

  read(buffer: Buffer, start: number, bytes: number, position: number, done: ReadDone): void {
    const apply = (random: Random) => {
      const node = this.#use("read");
      this.#disk.maybeFail(READ_FAULT, "read", this.#path, random);
      const isShort = bytes > 1 && this.#disk.rules.fires("read: a short count", random);
      const end = start + (isShort ? random.between(1, bytes - 1) : bytes);
      return this.#read(node, buffer.subarray(start, end), position, random);
    };
    this.#disk.later("read", this.#path, { apply }).then(
      (got) => done(null, got),
      (cause) => done(cause, 0),
    );
  }

  #read(node: FileNode, target: Buffer, position: number, random: Random): number {
    this.#disk.maybeDropLost(node, random);
    if (node.hasBad(position, target.length)) throw new SystemError("EIO", "read", this.#path);
    return node.read(target, position);
  }

  readNow(buffer: Buffer, position: number): number {
    const apply = (random: Random) => this.#read(this.#use("read"), buffer, position, random);
    return this.#disk.now("readNow", this.#path, apply, READ_FAULT);
  }

  async append(bytes: Buffer, start: number): Promise<number> {
    const { platter, rules } = this.#disk;
    const write = (end: number): Written => {
      const node = this.#use("write", true);
      const position = node.size;
      const count = platter.write(node, bytes.subarray(start, end), position);
      return { bytes: count, dirt: node.dirt(position, position + count) };
    };
    const written = await this.#disk.later("append", this.#path, {
      apply: (random) => {
        for (const fault of APPEND_FAULTS) {
          this.#disk.maybeFail(fault, "write", this.#path, random);
        }
        const { size } = this.#node;
        return write(this.#shortEnd("append: a short count", bytes, start, size, random));
      },
      finish: ({ dirt }, random) => {
        const isFailing = rules.fires("append: its sync fails", random);
        this.#endSync(dirt, this.#forAppends, random, isFailing ? "EIO" : undefined);
      },
      land: (random, isWhole) => {
        const { dirt } = write(isWhole ? bytes.length : random.between(start, bytes.length));
        this.#node.abandon(dirt);
      },
      abandon: ({ dirt }) => {
        rules.count("crash: a visible append is not durable");
        this.#node.abandon(dirt);
      },
    });
    return written.bytes;
  }

  /** Where a write at this position ends: it may write a part, of whole sectors. */
  #shortEnd(
    rule: RuleName,
    bytes: Buffer,
    start: number,
    position: number,
    random: Random,
  ): number {
    const least = start + SECTOR_BYTES - (position % SECTOR_BYTES);
    if (least >= bytes.length || !this.#disk.rules.fires(rule, random)) return bytes.length;
    return wholeSectors(random.between(least, bytes.length - 1), start, position);
  }

  async overwrite(bytes: Buffer, start: number, position: number): Promise<number> {
    const { platter, rules } = this.#disk;
    const write = (end: number) =>
      platter.write(this.#use("write", true), bytes.subarray(start, end), position);
    return this.#disk.later("overwrite", this.#path, {
      apply: (random) => {
        this.#disk.maybeFail(OVERWRITE_FAULT, "write", this.#path, random);
        const count = write(
          this.#shortEnd("overwrite: a short count", bytes, start, position, random),
        );
        if (rules.fires("sync: a write behind fails", random)) {
          platter.failSync(this.#node, this.#node.dirt(), random);
        }
        return count;
      },
      land: (random, isWhole) => {
        const end = random.between(start, bytes.length);
        write(isWhole ? bytes.length : wholeSectors(end, start, position));
      },
    });
  }

  truncate(bytes: number): void {
    const cut = () => this.#disk.platter.truncate(this.#use("ftruncate", true), bytes);
    this.#disk.now("truncate", this.#path, cut, TRUNCATE_FAULT);
  }

  async sync(): Promise<void> {
    const { rules } = this.#disk;
    await this.#disk.later("sync", this.#path, {
      apply: () => this.#use("fsync").dirt(),
      finish: (dirt, random) => {
        const isFull = rules.fires("sync: fails for want of room", random);
        const code = isFull ? "ENOSPC" : rules.fires("sync: fails", random) ? "EIO" : undefined;
        this.#endSync(dirt, this.#forChanges, random, code);
      },
      abandon: (dirt) => this.#node.abandon(dirt),
    });
  }

  close(): Promise<void> {
    return this.#disk.later("close", this.#path, {
      apply: () => {
        this.#use("close");
        this.drop();
        this.#disk.files.delete(this);
      },
    });
  }

  /** The descriptors are gone. @internal */
  drop(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#node.opens--;
  }
}

/** The kernel copies page by page, so what a write leaves undone begins with a sector. */
function wholeSectors(end: number, start: number, position: number): number {
  return Math.max(start, end - ((position + end - start) % SECTOR_BYTES));
}

async function* readChunks(file: OpenFile, chunkBytes: number): AsyncGenerator<Buffer> {
  try {
    for (let position = 0; ; ) {
      const chunk = Buffer.alloc(chunkBytes);
      const at = position;
      const got = await new Promise<number>((resolve, reject) => {
        file.read(chunk, 0, chunkBytes, at, (cause, bytes) =>
          cause === null ? resolve(bytes) : reject(cause),
        );
      });
      if (got === 0) return;
      position += got;
      yield chunk.subarray(0, got);
    }
  } finally {
    await file.close();
  }
}

/** The number of the only device. */
const DEVICE = 64n;

function stateOf(node: PlatterNode | undefined): FileState | undefined {
  if (node === undefined) return undefined;
  const ctimeMs = BigInt(node.ctimeMs);
  return {
    dev: DEVICE,
    ino: node.ino,
    size: BigInt(node.kind === "file" ? node.size : 0),
    nlink: BigInt(node.nlink),
    mode: BigInt(node.mode),
    uid: 0n,
    mtimeNs: BigInt(node.mtimeMs) * 1_000_000n,
    ctimeNs: ctimeMs * 1_000_000n,
    ctimeMs,
    isFile: () => node.kind === "file",
    isDirectory: () => node.kind === "folder",
    isSymbolicLink: () => false,
  };
}
