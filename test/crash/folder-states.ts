/** Data directories as a start may find them. */
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createToken, PlantStore } from "../../src/index.ts";
import { PlantBook } from "./plant-book.ts";

export interface FolderState {
  readonly book: PlantBook;
  /** Tokens that are live. */
  readonly tokens: readonly string[];
  /** Bytes that were never acknowledged, and that a start must move to quarantine. */
  readonly quarantined: readonly Buffer[];
  /** The same for the token log. */
  readonly quarantinedOfTokens?: readonly Buffer[];
}

export type MakeState = (folder: string) => Promise<FolderState>;

const PLANTS = 12;

/** Stopped cleanly: plants, a token, a checkpoint, and the lock files of dead processes. */
export async function makeClean(folder: string, plants = PLANTS): Promise<FolderState> {
  const book = new PlantBook({ hasLongNames: false });
  const token = await createToken(folder, { name: "first" });
  const store = await PlantStore.open(folder);
  for (let made = 0; made < plants; made++) {
    const plant = book.take();
    await store.create(book.plant(plant));
    book.acknowledge(plant);
  }
  await store.close();
  return { book, tokens: [token], quarantined: [] };
}

async function makeAbsent(): Promise<FolderState> {
  return { book: new PlantBook({ hasLongNames: false }), tokens: [], quarantined: [] };
}

async function makeUnused(folder: string): Promise<FolderState> {
  const token = await createToken(folder, { name: "first" });
  return { ...(await makeAbsent()), tokens: [token] };
}

/** The state after a kill: the log has grown beyond its checkpoint. */
function withTail(
  makeTail: (book: PlantBook) => { tail: Buffer; quarantined?: Buffer[] },
): MakeState {
  return async (folder) => {
    const state = await makeClean(folder);
    const { tail, quarantined = [] } = makeTail(state.book);
    appendFileSync(join(folder, "plants.jsonl"), tail);
    return { ...state, quarantined };
  };
}

function withoutCheckpoint(make: MakeState): MakeState {
  return async (folder) => {
    const state = await make(folder);
    rmSync(join(folder, "plants.jsonl.checkpoint"));
    return state;
  };
}

const torn = withTail((book) => {
  const tail = Buffer.from(book.line(book.take()).slice(0, 30));
  return { tail, quarantined: [tail] };
});

const wholeTail = withTail((book) => ({ tail: Buffer.from(book.line(book.take())) }));

const zeros = withTail(() => {
  const tail = Buffer.alloc(700);
  return { tail, quarantined: [tail] };
});

/** A line with two sectors of zeros, between whole lines. */
function lostPages(book: PlantBook): { tail: Buffer; quarantined: Buffer[] } {
  const lost = Buffer.from(`{"id":5,"name":"${"y".repeat(3000)}"}\n`);
  lost.fill(0, 600, 600 + 2 * 1024);
  const before = Buffer.from(`${book.line(book.take())}\n`);
  const after = Buffer.from(`${book.line(book.take())}\n`);
  return { tail: Buffer.concat([before, lost, after]), quarantined: [lost] };
}

const lostPagesAndTorn = withTail((book) => {
  const { tail, quarantined } = lostPages(book);
  const torn = Buffer.from(book.line(book.take()).slice(0, 40));
  return { tail: Buffer.concat([tail, torn]), quarantined: [...quarantined, torn] };
});

/** So long that the server writes a checkpoint at once, not only when it stops. */
const longLog = withTail(() => ({ tail: Buffer.from(`${" ".repeat(1024 * 1024)}\n`.repeat(17)) }));

/** Unfinished files that kills at other moments leave. */
async function makeLittered(folder: string): Promise<FolderState> {
  const state = await makeClean(folder);
  writeFileSync(join(folder, "plants.jsonl.checkpoint"), '{"bytes":1');
  writeFileSync(join(folder, "plants.jsonl.checkpoint.new"), '{"by');
  writeFileSync(join(folder, "plants.jsonl.quarantine-1"), "older");
  writeFileSync(join(folder, "lock.new-0123456789ab"), "");
  return state;
}

export const START_STATES: Readonly<Record<string, MakeState>> = {
  "no folder": makeAbsent,
  "tokens only": makeUnused,
  clean: makeClean,
  "no checkpoint": withoutCheckpoint(makeClean),
  "torn tail": torn,
  "torn tail, no checkpoint": withoutCheckpoint(torn),
  "tail without line feed": wholeTail,
  "tail of zeros": zeros,
  "lost pages": withTail(lostPages),
  "lost pages and torn tail, no checkpoint": withoutCheckpoint(lostPagesAndTorn),
  "long log": longLog,
  litter: makeLittered,
};
