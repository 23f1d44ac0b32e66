/**
 * Reads the pages of a snapshot into its index: those that somebody waits for
 * first, the others one behind the other.
 *
 * Invariants. A page is in the index only once its checksum was found right. Two
 * reads are under way at most, so that the log's writes find a thread free. What
 * becomes of a store whose snapshot has a damaged page is not known here (see
 * store/store-index).
 */
import { crc32 } from "node:zlib";
import { openEntry } from "../log/file.ts";
import type { IdIndex } from "./id-index.ts";
import type { PagePlace } from "./index-copy.ts";
import { PAGE_BYTES } from "./slot-table.ts";

/** Read at once, as a group: with 8 all are there a sixth sooner, but the first plant 0.06 s later (10 M). */
const GROUP_PAGES = 2;

/** A page of a snapshot: where it belongs, and the checksum it must have. */
export interface PageSum extends PagePlace {
  readonly crc32: number;
}

type PageBytes = Buffer<ArrayBuffer>;

/** Pages side by side in the file, which are read at once. */
interface Group {
  /** The number of its first page. */
  readonly first: number;
  readonly pages: readonly PageSum[];
  /** It was begun, or somebody waits for it. */
  isTaken: boolean;
  readonly arrived: Promise<void>;
  readonly arrive: () => void;
}

export class SnapshotPages {
  readonly #path: string;
  readonly #index: IdIndex;
  /** In the order in which they stand in the file. */
  readonly #groups: Group[] = [];
  /** That of each page, by its place. */
  readonly #groupOf = new Map<number, Group>();
  /** Those that somebody waits for and that were not begun; each once. */
  readonly #wanted: Group[] = [];
  /** All groups before it are taken. */
  #next = 0;
  #isStopped = false;

  /** @param pages in the order in which they stand in the file. */
  constructor(path: string, pages: readonly PageSum[], index: IdIndex) {
    this.#path = path;
    this.#index = index;
    for (let first = 0; first < pages.length; first += GROUP_PAGES) {
      const group = newGroup(first, pages.slice(first, first + GROUP_PAGES));
      this.#groups.push(group);
      for (const page of group.pages) this.#groupOf.set(keyOf(page), group);
    }
  }

  /**
   * Reads them all; called once.
   *
   * @param tell told after every group which share of the pages was read.
   * @throws what `tell` throws, the system's error, or an error where a page is damaged or it was
   * stopped.
   */
  async readAll(tell?: (share: number) => void): Promise<void> {
    const handle = await openEntry(this.#path);
    let read = 0;
    // While one lane judges, the other reads.
    const readLane = async () => {
      for (let group = this.#take(); group !== undefined; group = this.#take()) {
        const { first, pages, arrive } = group;
        // Straight into the memory they stay in.
        const bytes = pages.map(() => Buffer.from(new ArrayBuffer(PAGE_BYTES)));
        await handle.readv(bytes, first * PAGE_BYTES);
        if (this.#isStopped) return;
        for (const [at, page] of pages.entries())
          this.#set(first + at, page, bytes[at] as PageBytes);
        read += pages.length;
        tell?.(read / this.#groupOf.size);
        arrive();
      }
    };
    try {
      await Promise.all([readLane(), readLane()]);
      if (read < this.#groupOf.size) throw new Error("it was not read to its end");
    } finally {
      this.#isStopped = true;
      await handle.close();
    }
  }

  /** Resolves once an id with this hash can be looked up; never, where what that takes cannot be read. */
  async wait(hash: number): Promise<void> {
    const { isOld, page } = this.#index.placeOf(hash);
    // A page that is not there holds nothing.
    const groups = [page, page + 1].flatMap(
      (each) => this.#groupOf.get(keyOf({ isOld, page: each })) ?? [],
    );
    for (const group of groups) this.#want(group);
    await Promise.all(groups.map(({ arrived }) => arrived));
  }

  /** Has `readAll` end early. */
  stop(): void {
    this.#isStopped = true;
  }

  #want(group: Group): void {
    if (group.isTaken) return;
    group.isTaken = true;
    this.#wanted.push(group);
  }

  /** The group to read next. */
  #take(): Group | undefined {
    if (this.#isStopped) return undefined;
    const wanted = this.#wanted.shift();
    if (wanted !== undefined) return wanted;
    while (this.#groups[this.#next]?.isTaken === true) this.#next++;
    const group = this.#groups[this.#next];
    if (group !== undefined) group.isTaken = true;
    return group;
  }

  #set(number: number, page: PageSum, bytes: PageBytes): void {
    if (crc32(bytes) !== page.crc32) throw new Error(`page ${number} is damaged`);
    this.#index.setPage(page, bytes.buffer);
  }
}

function newGroup(first: number, pages: readonly PageSum[]): Group {
  let arrive = () => {};
  const arrived = new Promise<void>((resolve) => {
    arrive = resolve;
  });
  return { first, pages, isTaken: false, arrived, arrive };
}

/** A number of its own for each place. */
function keyOf({ isOld, page }: PagePlace): number {
  return 2 * page + (isOld ? 1 : 0);
}
