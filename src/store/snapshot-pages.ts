/**
 * Reads the pages of a snapshot into its index: those that somebody waits for
 * first, the others one behind the other.
 *
 * Invariants. A page is in the index only once its checksum was found right. Two
 * reads are under way at most, so that the log's writes find a thread free. What
 * becomes of a store whose snapshot has a damaged page is not known here (see
 * store/store-index).
 */
import fs from "node:fs/promises";
import { crc32 } from "node:zlib";
import type { IdIndex } from "./id-index.ts";
import type { PagePlace } from "./index-copy.ts";
import { PAGE_BYTES } from "./slot-table.ts";

/** Read at once, as a group: with 8 all are there a sixth sooner, but the first plant 0.06 s later (10 M). */
const GROUP_PAGES = 2;

/** A page of a snapshot: where it belongs, and the checksum it must have. */
export interface PageSum extends PagePlace {
  readonly crc32: number;
}

/** What a group is waited for by. */
interface Arrival {
  readonly promise: Promise<void>;
  readonly arrive: () => void;
}

export class SnapshotPages {
  readonly #path: string;
  /** In the order in which they stand in the file. */
  readonly #pages: readonly PageSum[];
  /** Which of them is which page of its table. */
  readonly #numbers: ReadonlyMap<number, number>;
  readonly #index: IdIndex;
  /** Of groups that were read, and of those that somebody waits for. */
  readonly #arrivals = new Map<number, Arrival>();
  /** Groups that somebody waits for, perhaps begun already; each once. */
  readonly #wanted: number[] = [];
  readonly #begun = new Set<number>();
  /** All groups before it were begun. */
  #next = 0;
  #isStopped = false;

  constructor(path: string, pages: readonly PageSum[], index: IdIndex) {
    this.#path = path;
    this.#pages = pages;
    this.#numbers = new Map(pages.map((page, number) => [keyOf(page), number]));
    this.#index = index;
  }

  /**
   * Reads them all; called once.
   *
   * @param tell told after every group which share of the pages was read.
   * @throws what `tell` throws, the system's error, or an error where a page is damaged or it was
   * stopped.
   */
  async readAll(tell?: (share: number) => void): Promise<void> {
    const handle = await fs.open(this.#path);
    let read = 0;
    // While one lane judges, the other reads.
    const readLane = async () => {
      for (let group = this.#take(); group !== undefined; group = this.#take()) {
        const first = group * GROUP_PAGES;
        const pages = this.#pages.slice(first, first + GROUP_PAGES);
        // Straight into the memory they stay in.
        const bytes = pages.map(() => Buffer.from(new ArrayBuffer(PAGE_BYTES)));
        await handle.readv(bytes, first * PAGE_BYTES);
        if (this.#isStopped) return;
        for (const [at, page] of bytes.entries()) this.#set(first + at, page);
        read += pages.length;
        tell?.(read / this.#pages.length);
        this.#arrivalOf(group).arrive();
      }
    };
    try {
      await Promise.all([readLane(), readLane()]);
      if (read < this.#pages.length) throw new Error("it was not read to its end");
    } finally {
      this.#isStopped = true;
      await handle.close();
    }
  }

  /** Resolves once an id with this hash can be looked up; never, where what that takes cannot be read. */
  async wait(hash: number): Promise<void> {
    const { isOld, page } = this.#index.placeOf(hash);
    const numbers = [page, page + 1].map((each) => this.#numbers.get(keyOf({ isOld, page: each })));
    // One that is not there holds nothing. Both are asked for at once, and each waiter asks once.
    const arrivals = numbers.map((number) =>
      number === undefined ? undefined : this.#arrivalOf(Math.floor(number / GROUP_PAGES)).promise,
    );
    await Promise.all(arrivals);
  }

  /** Has `readAll` end early. */
  stop(): void {
    this.#isStopped = true;
  }

  /** The group to read next. */
  #take(): number | undefined {
    if (this.#isStopped) return undefined;
    let group = this.#wanted.shift();
    while (group !== undefined && this.#begun.has(group)) group = this.#wanted.shift();
    if (group === undefined) {
      while (this.#begun.has(this.#next)) this.#next++;
      if (this.#next * GROUP_PAGES >= this.#pages.length) return undefined;
      group = this.#next;
    }
    this.#begun.add(group);
    return group;
  }

  #arrivalOf(group: number): Arrival {
    let arrival = this.#arrivals.get(group);
    if (arrival === undefined) {
      let arrive = () => {};
      const promise = new Promise<void>((resolve) => {
        arrive = resolve;
      });
      arrival = { promise, arrive };
      this.#arrivals.set(group, arrival);
      this.#wanted.push(group);
    }
    return arrival;
  }

  #set(number: number, bytes: Buffer<ArrayBuffer>): void {
    const page = this.#pages[number] as PageSum;
    if (crc32(bytes) !== page.crc32) throw new Error(`page ${number} is damaged`);
    this.#index.setPage(page, bytes.buffer);
  }
}

/** A number of its own for each place. */
function keyOf({ isOld, page }: PagePlace): number {
  return 2 * page + (isOld ? 1 : 0);
}
