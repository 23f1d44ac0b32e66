/** The pages of an index in a file, as a snapshot has them, without a log that they belong to. */
import fs from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { crc32 } from "node:zlib";
import { IdIndex } from "../../src/store/id-index.ts";
import { PAGE_BYTES } from "../../src/store/slot-table.ts";
import { type PageSum, SnapshotPages } from "../../src/store/snapshot-pages.ts";
import { makeFolder } from "./folders.ts";

export interface IndexPages {
  /** Lacks its pages. */
  readonly index: IdIndex;
  readonly pages: SnapshotPages;
  readonly sums: readonly PageSum[];
  readonly path: string;
}

/** @param whole an index, of which nothing is moved meanwhile. */
export function writeIndexPages(t: TestContext, whole: IdIndex): IndexPages {
  const path = join(makeFolder(t), "pages");
  const bytes = Buffer.alloc(PAGE_BYTES);
  const sums: PageSum[] = [];
  const fd = fs.openSync(path, "w");
  const copy = whole.beginCopy(Number.MAX_SAFE_INTEGER);
  for (const page of copy.pages(bytes)) {
    sums.push({ ...page, crc32: crc32(bytes) });
    fs.writeSync(fd, bytes);
  }
  copy.end();
  fs.closeSync(fd);
  const index = IdIndex.ofPages(copy.shape, sums, whole.size);
  return { index, pages: new SnapshotPages(path, sums, index), sums, path };
}

/** Puts another byte into the middle of a page. */
export function damagePage(path: string, page: number): void {
  const fd = fs.openSync(path, "r+");
  const place = page * PAGE_BYTES + PAGE_BYTES / 2;
  const byte = Buffer.alloc(1);
  fs.readSync(fd, byte, 0, 1, place);
  byte.writeUInt8(byte.readUInt8() ^ 1);
  fs.writeSync(fd, byte, 0, 1, place);
  fs.closeSync(fd);
}
