/** Data directories that a round of power cuts begins with; they are on a disk that keeps its power. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createToken, PlantStore } from "../../src/index.ts";
import { PlantBook } from "./plant-book.ts";
import type { Random } from "./random.ts";

export interface Source {
  readonly folder: string;
  /** The plants in its log; none is acknowledged. */
  readonly book: PlantBook;
  readonly token: string;
}

const PLANTS_MIN = 10;
const SHORT_LOG_PLANTS = 1000;
const PLANTS_MAX = 20_000;
/** From here on a log is longer than a batch, whose bytes every start writes again. */
const LONG_LOG_PLANTS = 12_000;

/** A data directory of a server that was stopped. By default half of the logs are long. */
export async function makeSource(
  folder: string,
  random: Random,
  length = random.pick(["short", "long"]),
): Promise<Source> {
  const [least, most] =
    length === "long" ? [LONG_LOG_PLANTS, PLANTS_MAX] : [PLANTS_MIN, SHORT_LOG_PLANTS];
  const book = new PlantBook({ hasLongNames: true });
  const token = await createToken(folder, { name: "first" });
  const lines = takeLines(book, least + random.below(most - least + 1));
  writeFileSync(logIn(folder), lines, { mode: 0o600 });
  await (await PlantStore.open(folder)).close(); // writes the checkpoint
  if (random.next() < 0.3) rmSync(`${logIn(folder)}.checkpoint`);
  return { folder, book, token };
}

/** The lines of new plants. */
export function takeLines(book: PlantBook, count: number): string {
  return Array.from({ length: count }, () => `${book.line(book.take())}\n`).join("");
}

export function logIn(folder: string): string {
  return join(folder, "plants.jsonl");
}
