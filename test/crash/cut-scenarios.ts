/**
 * What happens before a power cut: other programs write files and sync nothing, then ours reads these files
 * and reports something about them. All that it reported must be there after the cut.
 */
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { createToken } from "../../src/index.ts";
import { logIn, makeSource, type Source, takeLines } from "./cut-source.ts";
import { replay } from "./load.ts";
import { execute, type LoopDisk } from "./loop-disk.ts";
import type { PlantBook } from "./plant-book.ts";
import { type Ended, type Program, type Run, runProgram } from "./program.ts";
import type { Random } from "./random.ts";
import type { Totals } from "./report.ts";
import { describeEnd, Server } from "./server.ts";
import type { SmallDisk } from "./small-disk.ts";

export interface CutRound {
  readonly program: Program;
  readonly random: Random;
  readonly totals: Totals;
  /** The disk that loses its power. */
  readonly disk: LoopDisk;
  /** The device below it, if that is thin. */
  readonly device: SmallDisk | undefined;
  /** A folder on a disk that keeps it. */
  readonly work: string;
}

/** What was reported before the cut. */
export interface Reported {
  /** The data directory on the disk. */
  readonly folder: string;
  /** Its acknowledged plants were reported as stored. */
  readonly book: PlantBook;
  /** Tokens that were accepted or copied. */
  readonly live: readonly string[];
  /** Tokens that were reported as revoked. */
  readonly revoked?: readonly string[];
  /** Processes that end with the power. */
  readonly running?: readonly Run[];
}

export interface CutScenario {
  readonly name: string;
  /** Whether the device below the disk can be filled. */
  readonly isOnThinDevice?: boolean;
  /** Runs until the moment of the cut; `undefined` if nothing was reported. */
  attempt(round: CutRound): Promise<Reported | undefined>;
}

const REPEATS = 200;

/** Repeats plants of the log that a server serves; returns its process, which still runs. */
export async function repeat(
  { totals }: CutRound,
  server: Server,
  { book, token }: Source,
  first = 0,
): Promise<readonly Run[]> {
  const port = await server.ready;
  if (port === undefined) {
    totals.faults.push(`a start before the cut ${describeEnd(await server.ended)}`);
    return [];
  }
  const step = Math.max(1, Math.floor((book.taken - first) / REPEATS));
  const plants = Array.from({ length: REPEATS }, (_, at) => first + at * step);
  const there = plants.filter((plant) => plant < book.taken);
  totals.faults.push(...(await replay({ port, token, book }, there)));
  return [server.run];
}

/** Runs a command to its end, and returns whether it reported this. */
async function reports(
  { program, totals }: CutRound,
  args: readonly string[],
  expected: RegExp,
): Promise<boolean> {
  const ended = await runProgram(program, args);
  const isReported = expected.test(`${ended.stdout}${ended.stderr}`);
  if (!isReported) totals.faults.push(`${args[0]} ${describeEnd(ended)}`);
  return isReported;
}

/** The path of a folder that does not exist; the folders above it may be new, and not synced. */
function choosePlace({ disk, random }: CutRound, name: string): string {
  const place = join(disk.folder, random.pick([name, `new/folders/${name}`]));
  mkdirSync(dirname(place), { recursive: true });
  return place;
}

/** Copies a folder to the disk by `cp -a`; some are renamed afterwards, or named through a link. */
function copyIn(source: Source, round: CutRound): string {
  const { disk, random, work } = round;
  const place = choosePlace(round, "data");
  const isRenamed = random.next() < 0.2;
  const first = isRenamed ? `${place}.new` : place;
  if (random.next() < 0.3) {
    mkdirSync(first, { mode: 0o700 });
    disk.sync();
  }
  execute("cp", "-a", `${source.folder}/.`, first);
  if (isRenamed) {
    disk.sync();
    renameSync(first, place);
  }
  if (random.next() < 0.8) return place;
  symlinkSync(place, join(work, "link"));
  return join(work, "link");
}

/** Puts a folder on the disk durably. */
function install(source: Source, { disk }: CutRound): string {
  const folder = join(disk.folder, "data");
  execute("cp", "-a", source.folder, folder);
  disk.sync();
  return folder;
}

function makeRoundSource({ work, random }: CutRound): Promise<Source> {
  return makeSource(join(work, "source"), random);
}

const copied: CutScenario = {
  name: "copied folder",
  async attempt(round) {
    const source = await makeRoundSource(round);
    const folder = copyIn(source, round);
    const running = await repeat(round, new Server(round.program, folder), source);
    return { folder, book: source.book, live: [source.token], running };
  },
};

const appended: CutScenario = {
  name: "appended lines",
  async attempt(round) {
    const source = await makeRoundSource(round);
    const folder = install(source, round);
    const { book } = source;
    const first = book.taken;
    const lines = join(round.work, "lines");
    writeFileSync(lines, takeLines(book, 10 + round.random.below(20_000)));
    execute("sh", "-c", 'cat "$1" >> "$2"', "sh", lines, logIn(folder));
    const running = await repeat(round, new Server(round.program, folder), source, first);
    return { folder, book, live: [source.token], running };
  },
};

/** Ways in which an operator revokes the token `second` without our program. */
const TOKEN_EDITS: readonly [TokenEdit, ...TokenEdit[]] = [
  (path) => execute("sed", "-i", `$a${REVOCATION}`, path),
  (path) => execute("sed", "-i", '/"name":"second"/d', path),
  (path) => appendFileSync(path, `${REVOCATION}\n`),
  (path) => rmSync(path), // revokes all
];
type TokenEdit = (path: string) => void;
export const REVOCATION =
  '{"event":"revoked","name":"second","revokedAt":"2026-01-01T00:00:00.000Z"}';

/** More than a batch, whose bytes a change of the tokens writes again. */
const LONG_TOKEN_LOG_BYTES = 1.5 * 2 ** 20;

export function lengthenTokenLog(path: string): void {
  let lines = "";
  for (let number = 0; lines.length < LONG_TOKEN_LOG_BYTES; number++) {
    const hash = number.toString(16).padStart(64, "0");
    const created = `"hash":"${hash}","scopes":["write"],"createdAt":"2026-01-01T00:00:00.000Z"`;
    lines += `{"event":"created","name":"other-${number}",${created}}\n`;
  }
  appendFileSync(path, lines);
}

export type TokenCommand = "list" | "revoke";

/** Runs a command after the token `second` was revoked, and returns how it ended unless it reported this. */
export async function failsToReportRevoked(
  { program }: CutRound,
  folder: string,
  command: TokenCommand,
): Promise<Ended | undefined> {
  const words = command === "list" ? ["list", "--json"] : ["revoke", "second"];
  const ended = await runProgram(program, ["token", ...words, "--data", folder]);
  const isReported =
    command === "list"
      ? ended.status === 0 && !/"name":"second".*"state":"live"/.test(ended.stdout)
      : ended.status === 1 && /live token/.test(ended.stderr);
  return isReported ? undefined : ended;
}

const tokenEdited: CutScenario = {
  name: "token file edited",
  async attempt(round) {
    const { random, program, totals } = round;
    const source = await makeRoundSource(round);
    const second = await createToken(source.folder, { name: "second" });
    const path = join(source.folder, "tokens.jsonl");
    if (random.next() < 0.3) lengthenTokenLog(path);
    const folder = install(source, round);
    const edit = random.pick(TOKEN_EDITS);
    const server = random.next() < 0.5 ? new Server(program, folder) : undefined;
    await server?.ready;
    edit(join(folder, "tokens.jsonl"));
    const command = random.next() < 0.7 ? "list" : "revoke";
    const failure = await failsToReportRevoked(round, folder, command);
    if (failure !== undefined) totals.faults.push(`token ${command} ${describeEnd(failure)}`);
    const isGone = !existsSync(join(folder, "tokens.jsonl"));
    return {
      folder,
      book: source.book,
      live: isGone ? [] : [source.token],
      revoked: isGone ? [second, source.token] : [second],
      running: server === undefined ? [] : [server.run],
    };
  },
};

const restored: CutScenario = {
  name: "restore",
  async attempt(round) {
    const { book, folder: backup, token } = await makeRoundSource(round);
    const folder = choosePlace(round, "data");
    if (round.random.next() < 0.3) mkdirSync(folder, { mode: 0o700 });
    const args = ["restore", backup, "--data", folder];
    if (await reports(round, args, /^restored /m)) book.acknowledgeAll();
    return { folder, book, live: [token] };
  },
};

/** Those on a disk that has room. */
export const ORDINARY_CUTS: readonly CutScenario[] = [copied, appended, tokenEdited, restored];
