/**
 * What is known of a data directory, and what breaks a promise.
 *
 * Invariants. Acknowledgements follow the order of the log, and one batch is in flight at a time. So what is
 * promised is a prefix of the log: `stable`, up to the last record that somebody was told of. In the world of
 * crashes it is there after every start, to the byte; in that of rot a start serves it whole or refuses; where
 * somebody meddles, it is what they have left of it.
 */
import type { PlantStoreError } from "../../src/core/errors.ts";
import { type Image, isAsKnown, isTorn, parseLog } from "./image.ts";
import type { WorldName } from "./plan.ts";
import type { Platter } from "./platter.ts";
import { Violation } from "./process.ts";
import { Tokens } from "./tokens.ts";

const EMPTY = Buffer.alloc(0);

export type Files = Readonly<Record<"log" | "checkpoint" | "quarantine", Buffer | undefined>>;

export class Folder {
  readonly path: string;
  readonly logPath: string;
  readonly tokensPath: string;
  tokens = new Tokens();
  /** The durable beginning of the log. */
  stable: Buffer = EMPTY;
  /** The plants in it: their contents by their ids. */
  known = new Map<string, string>();
  /** Whether nothing was sent since it was served last: the next start finds the same, and changes nothing. */
  isSettled = false;
  /** What the first start found since the last one that succeeded, or since a power cut. */
  recovering: Files | undefined;
  /** The plants that a repair has to leave: it may have been killed. */
  wanted: string | undefined;
  /** Whether rot or another program has changed the log since it was last served. */
  isChanged = false;

  constructor(folderPath: string) {
    this.path = folderPath;
    this.logPath = `${folderPath}/plants.jsonl`;
    this.tokensPath = `${folderPath}/tokens.jsonl`;
  }

  setStable(bytes: Buffer): void {
    this.stable = bytes;
    this.known = new Map(parseLog(bytes).plants.map(({ id, content }) => [id, content]));
  }
}

export class Judge {
  readonly world: WorldName;
  platter: Platter;
  /** Every plant that was sent, or written into a log. */
  readonly #sent = new Set<string>();

  constructor(world: WorldName, platter: Platter) {
    this.world = world;
    this.platter = platter;
  }

  send(id: string, content: string): void {
    this.#sent.add(`${id} ${content}`);
  }

  bytesOf(filePath: string): Buffer | undefined {
    return this.platter.file(filePath)?.bytes;
  }

  logOf({ logPath }: Folder): Buffer {
    return this.bytesOf(logPath) ?? EMPTY;
  }

  filesOf({ logPath }: Folder): Files {
    const [checkpoint, quarantine] = ["checkpoint", "quarantine"].map((suffix) =>
      this.bytesOf(`${logPath}.${suffix}`),
    );
    return { log: this.bytesOf(logPath), checkpoint, quarantine };
  }

  /** Somebody is told that this id is stored, with this content if it is given. Returns the content. */
  told(folder: Folder, id: string, what: string, content?: string): string {
    let found = folder.known.get(id);
    if (found === undefined) {
      const start = folder.stable.length;
      const { plants } = parseLog(this.logOf(folder).subarray(start));
      const plant = plants.find((each) => each.id === id);
      if (plant === undefined) throw new Violation("lost", `${what}: ${id} is not in the log`);
      this.extend(folder, start + plant.end, what);
      found = plant.content;
    }
    if (content === undefined || content === found) return found;
    throw new Violation("changed", `${what}: ${id} has ${found}, and not ${content}`);
  }

  /** The log was promised up to here. */
  extend(folder: Folder, end: number, what: string): void {
    const { stable } = folder;
    if (end <= stable.length) return;
    const bytes = this.logOf(folder).subarray(0, end);
    if (bytes.length < end || !startsWith(bytes, stable)) {
      throw new Violation("lost", `${what}: the log has changed before byte ${end}`);
    }
    for (const { id, content } of parseLog(bytes.subarray(stable.length)).plants) {
      if (folder.known.has(id)) throw new Violation("twice", `${what}: ${id} is there twice`);
      folder.known.set(id, content);
    }
    folder.stable = bytes;
    this.assertDurable(folder.logPath, bytes, what);
  }

  assertDurable(filePath: string, bytes: Buffer, what: string, position = 0): void {
    if (this.platter.keeps(filePath, bytes, position)) return;
    throw new Violation("not durable", `${what}: "${filePath}" is not durable`);
  }

  /** Quarantine has these bytes, durably. */
  assertKept(folder: Folder, bytes: Buffer, what: string): void {
    const { quarantine } = this.filesOf(folder);
    const at = quarantine?.lastIndexOf(bytes) ?? -1;
    if (at < 0) throw new Violation("removed", `${what}: nothing keeps ${bytes.length} bytes`);
    this.assertDurable(`${folder.logPath}.quarantine`, bytes, what, at);
  }

  judgeStart(folder: Folder, plants: number): void {
    const { stable, isSettled } = folder;
    const after = this.filesOf(folder);
    const log = after.log ?? EMPTY;
    const image = parseLog(log);
    this.#judgeForm(folder, image, plants);
    this.#judgeRecovery(folder, folder.recovering ?? after, log);
    const isRepaired = folder.wanted !== undefined && folder.wanted === describe(image.plants);
    if (!isRepaired && !startsWith(log, stable)) {
      throw new Violation("lost", `the log does not begin with the ${stable.length} bytes it had`);
    }
    if (isSettled && !(log.equals(stable) && isSame(folder.recovering ?? after, after))) {
      throw new Violation("second start", "a start has changed what the one before has served");
    }
    this.assertDurable(folder.logPath, log, "a start");
    folder.setStable(log);
    folder.isSettled = true;
    folder.recovering = undefined;
    folder.wanted = undefined;
    folder.isChanged = false;
  }

  #judgeForm(folder: Folder, { plants, bad }: Image, count: number): void {
    if (bad !== undefined) {
      throw new Violation("served damage", `a log is served with damage at byte ${bad}`);
    }
    const ids = new Set(plants.map(({ id }) => id)).size;
    if (ids < plants.length || ids !== count) {
      throw new Violation(
        "twice",
        `of ${plants.length} plants ${count} are served, with ${ids} ids`,
      );
    }
    for (const { id, content } of plants) {
      if (this.world === "meddling" && folder.isChanged) this.send(id, content);
      if (this.#sent.has(`${id} ${content}`)) continue;
      throw new Violation("invented", `${id} has ${content}, which nobody has sent`);
    }
  }

  /** What a start may change: it may cut a torn end, behind the checkpoint, into quarantine. */
  #judgeRecovery(folder: Folder, before: Files, log: Buffer): void {
    const old = before.log ?? EMPTY;
    const tail = old.subarray(log.length);
    if (!startsWith(old, log)) {
      throw new Violation("changed", "a start has changed the log, and not only its end");
    }
    if (!isAsKnown(log, before.checkpoint)) {
      throw new Violation("served damage", "a log is served that its checkpoint does not know");
    }
    if (tail.length === 0) return;
    if (!isTorn(tail)) {
      throw new Violation("cut", `a start has cut ${tail.length} bytes that are not torn`);
    }
    const { counts } = this.platter.rules;
    if (counts["room: none"] || counts["append: no room"]) return; // it is told how much was dropped
    this.assertKept(folder, tail, "a start");
  }

  judgeRefusal(folder: Folder, before: Files, { message }: PlantStoreError): void {
    folder.recovering = undefined;
    const isAsBefore = isSame(before, this.filesOf(folder));
    if (folder.isChanged && isAsBefore && message.includes(folder.path)) return;
    throw new Violation("refused", isAsBefore ? message : `with a changed file: ${message}`);
  }
}

export function describe(plants: readonly { readonly id: string; readonly content: string }[]) {
  return plants.map(({ id, content }) => `${id} ${content}`).join("\n");
}

export function startsWith(bytes: Buffer, start: Buffer): boolean {
  return bytes.subarray(0, start.length).equals(start);
}

/** A start may write a checkpoint. */
function isSame(one: Files, other: Files): boolean {
  const textOf = (bytes: Buffer | undefined) => bytes?.toString("latin1");
  return (["log", "quarantine"] as const).every((it) => textOf(one[it]) === textOf(other[it]));
}
