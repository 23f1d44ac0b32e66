/**
 * A copy of an index, made page by page while ids are added to it.
 *
 * Invariant. It holds what the index held when it began, and nothing else: what
 * was added since has larger offsets and is left out, and the index moves nothing
 * between its tables meanwhile (see store/id-index).
 */
import { keepBelow, type SlotTable } from "./slot-table.ts";

/** What makes an index besides the pages of its tables. */
export interface IndexShape {
  readonly seed: Uint8Array;
  readonly homes: number;
  /** Of the table that is being emptied; 0 where there is none. */
  readonly oldHomes: number;
  /** Homes of that table that are empty already. */
  readonly moved: number;
}

/** Where a page of a copied index belongs. */
export interface PagePlace {
  readonly isOld: boolean;
  readonly page: number;
}

export class IndexCopy {
  readonly shape: IndexShape;
  readonly #tables: readonly (SlotTable | undefined)[];
  readonly #limit: number;
  readonly #end: () => void;
  #isLost = false;

  constructor(
    shape: IndexShape,
    tables: readonly (SlotTable | undefined)[],
    limit: number,
    end: () => void,
  ) {
    this.shape = shape;
    this.#tables = tables;
    this.#limit = limit;
    this.#end = end;
  }

  /** So many ids were added that the index had to go on moving: the copy is worth nothing. */
  get isLost(): boolean {
    return this.#isLost;
  }

  /** At most so many pages. */
  get pageCount(): number {
    return this.#tables.reduce((count, table) => count + (table?.pageCount ?? 0), 0);
  }

  /** Copies one page after the other into `target`, each when it is asked for. */
  *pages(target: Uint8Array): Generator<PagePlace & { readonly used: number }> {
    for (const [at, table] of this.#tables.entries()) {
      for (let page = 0; page < (table?.pageCount ?? 0); page++) {
        const isOld = at === 1;
        if (table?.copyPage(page, isOld ? this.shape.moved : 0, target) !== true) continue;
        yield { isOld, page, used: keepBelow(this.#limit, target) };
      }
    }
  }

  /** Lets the index move again. */
  end(): void {
    this.#end();
  }

  giveUp(): void {
    this.#isLost = true;
    this.#end();
  }
}
