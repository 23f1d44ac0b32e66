/**
 * The ids of an open store: an index that may still be read from its snapshot.
 *
 * A start that waited for every page would take longer the larger the store is,
 * and most of that is the first touch of memory. So it serves at once: whoever
 * needs a page waits for that one (see store/snapshot-pages), and ids that are
 * added meanwhile stand in an index of their own until all pages are there.
 *
 * Invariants. `get` is called only for ids that are ready, `add` only for ids that
 * once were. A snapshot that turns out to be damaged is left aside, and what it stood
 * for is read from the log: until then nothing is ready.
 */
import { setImmediate as turn } from "node:timers/promises";
import type { IdIndex } from "./id-index.ts";
import type { IndexCopy } from "./index-copy.ts";
import type { SnapshotPages } from "./snapshot-pages.ts";

/** What is still to be read of an index. */
export interface IndexRest {
  readonly pages: SnapshotPages;
  /** The ids that came after the snapshot. */
  readonly recent: IdIndex;
  /** Adds to the index, which is empty then, from the log, what the snapshot stands for that is damaged. */
  readonly scan: (index: IdIndex, cause: unknown, signal: AbortSignal) => Promise<void>;
}

export class StoreIndex {
  /**
   * Resolves once all of it is there, with whether its snapshot was sound; rejects where that
   * is not to be: the log is not what it was, or it was stopped before.
   */
  readonly whole: Promise<boolean>;
  readonly #index: IdIndex;
  /** Until all of it is there. */
  #rest: IndexRest | undefined;
  /** What is added goes in here. */
  #target: IdIndex;
  #isScanning = false;
  readonly #stop = new AbortController();
  readonly #forgo = new AbortController();
  /** Settles once nothing is added any more; `whole` may have told of a stop before. */
  readonly #reading: Promise<boolean>;
  #size: number;

  /** @param rest what the index lacks, if it lacks anything: reading it begins here. */
  constructor(index: IdIndex, rest?: IndexRest) {
    this.#index = index;
    this.#rest = rest;
    this.#target = rest?.recent ?? index;
    this.#size = index.size + (rest?.recent.size ?? 0);
    this.#reading = rest === undefined ? Promise.resolve(true) : this.#complete(rest);
    // Whoever waits is told of a stop at once: only the stop itself waits for the disk.
    this.whole =
      rest === undefined ? this.#reading : untilAborted(this.#reading, this.#stop.signal);
    this.whole.catch(() => {}); // for those who wait
  }

  /** Until all is there, an id that an editor doubled behind the snapshot counts twice. */
  get size(): number {
    return this.#rest === undefined ? this.#index.size : this.#size;
  }

  /** The hash of an id, which nobody can choose: its seed is secret. */
  hashOfId(id: bigint): number {
    return this.#index.hashOfId(id);
  }

  /** Whether ids with this hash can be looked up and added. */
  isReady(hash: number): boolean {
    return this.#rest === undefined || (!this.#isScanning && this.#index.isRead(hash));
  }

  /** Waits until ids with this hash are ready. @throws what `whole` rejects with. */
  async ready(hash: number): Promise<void> {
    const pages = this.#isScanning ? undefined : this.#rest?.pages;
    await Promise.race(pages === undefined ? [this.whole] : [pages.wait(hash), this.whole]);
  }

  /**
   * The byte offset of the record with this id, or `undefined`; until all is there, a later one of
   * an id that an editor doubled behind the snapshot.
   */
  get(id: bigint): number | undefined {
    return this.#rest?.recent.get(id) ?? this.#index.get(id);
  }

  /** The same for an id given as two signed 32-bit halves, once the index is whole. */
  getWords(low: number, high: number): number | undefined {
    return this.#index.getWords(low, high);
  }

  /** Adds an id that is not there. @throws RangeError for an offset of 1 TiB or more. */
  add(id: bigint, offset: number): void {
    this.#target.add(id, offset);
    this.#size++;
  }

  /** See IdIndex; only of a whole one. */
  beginCopy(limit: number): IndexCopy {
    return this.#index.beginCopy(limit);
  }

  /**
   * Has it end where a page is damaged, instead of reading the log; such a read under way is ended
   * at once. Pages may still be waited for.
   */
  forgoScan(): void {
    this.#forgo.abort();
    if (this.#isScanning) void this.stop(); // who waits is told now, not when the read is
  }

  /** Ends what is still being read; never rejects. */
  async stop(): Promise<void> {
    this.#forgo.abort();
    this.#stop.abort();
    this.#rest?.pages.stop();
    await this.#reading.catch(() => {});
  }

  async #complete(rest: IndexRest): Promise<boolean> {
    const isSound = await this.#readPages(rest);
    this.#target = this.#index;
    for (const _ of this.#index.addAll(rest.recent)) {
      await turn();
      this.#stop.signal.throwIfAborted();
    }
    this.#rest = undefined;
    return isSound;
  }

  async #readPages({ pages, scan }: IndexRest): Promise<boolean> {
    try {
      await pages.readAll();
      return true;
    } catch (cause) {
      this.#forgo.signal.throwIfAborted();
      this.#isScanning = true;
      this.#index.clear();
      await scan(this.#index, cause, this.#forgo.signal);
      this.#isScanning = false;
      return false;
    }
  }
}

/** The same, but rejects as soon as the signal is aborted. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}
