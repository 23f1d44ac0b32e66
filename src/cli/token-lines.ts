/** Tokens as lines: what `token list` shows, and what `token export` prints and `token import` reads, strictly. */
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { scanJson } from "../core/json.ts";
import { cut } from "../core/text.ts";
import { decodeTokenRecord, encodeTokens, formatTime, isLive, TIMES } from "../core/token.ts";
import { PlantStoreError, type TokenRecord } from "../index.ts";
import { count, printMessage } from "./output.ts";

/** @param now milliseconds since 1970. */
export function describeToken(token: TokenRecord, now: number) {
  const { name, scopes, createdAt, expiresAt, revokedAt } = token;
  const dead = revokedAt === undefined ? "expired" : "revoked";
  return {
    name,
    scopes,
    state: isLive(token, now) ? "live" : dead,
    created: formatTime(token, "createdAt", createdAt),
    expires: expiresAt === undefined ? null : formatTime(token, "expiresAt", expiresAt),
  };
}

export function encodeTokenLines(records: readonly TokenRecord[]): string[] {
  return records.map((record) => encodeTokens(record));
}

/**
 * The tokens in a file, or in standard input if it is `-`.
 *
 * @returns `undefined` if a line is refused; the first of those were named.
 * @throws PlantStoreError `io_error`.
 */
export async function readTokenLines(file: string): Promise<TokenRecord[] | undefined> {
  return parseTokens(file === "-" ? await text(process.stdin) : readTokenFile(file));
}

function readTokenFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "EISDIR" ? "it is a folder; token export prints its tokens" : message;
    throw new PlantStoreError("io_error", `Cannot read "${file}": ${why}`, { cause });
  }
}

/** How many refused lines are named. */
const NAMED_MAX = 20;

function parseTokens(lines: string): TokenRecord[] | undefined {
  let refused = 0;
  const records = lines.split("\n").flatMap((line, at) => {
    try {
      return line.trim() === "" ? [] : [parseToken(line)];
    } catch (error) {
      refused++;
      if (refused <= NAMED_MAX) printMessage(`refused line ${at + 1}: ${(error as Error).message}`);
      return [];
    }
  });
  if (refused === 0) return records;
  if (refused > NAMED_MAX) printMessage(`refused ${count(refused - NAMED_MAX, "more line")}`);
  printMessage("nothing was imported: expected lines that token export has printed");
  return undefined;
}

const MEMBERS: readonly string[] = ["name", "hash", "scopes", ...TIMES];

/**
 * Refuses any other member: it may be a misspelt expiry, or of a later release. A time must have the
 * form that is exported, because without a zone it would depend on this machine.
 */
function parseToken(line: string): TokenRecord {
  const names = memberNames(line);
  const other = names.find((name) => !MEMBERS.includes(name));
  if (other !== undefined) throw new Error(`${cut(other)}: expected no such member`);
  const twice = names.find((name, at) => names.indexOf(name) < at);
  if (twice !== undefined) throw new Error(`${twice}: expected once`);
  const members = Object(JSON.parse(line));
  for (const name of TIMES) {
    const text = members[name];
    if (typeof text === "string" && !isExportedTime(text)) {
      throw new Error(`${name}: expected a time such as "2026-01-01T00:00:00.000Z"`);
    }
  }
  return decodeTokenRecord(members);
}

function memberNames(line: string): readonly string[] {
  const names: string[] = [];
  try {
    scanJson(line, (name) => names.push(JSON.parse(name)));
  } catch {
    throw new Error("expected JSON"); // the scanner's own message would show the line
  }
  return names;
}

function isExportedTime(text: string): boolean {
  const time = new Date(text);
  return !Number.isNaN(time.getTime()) && time.toISOString() === text;
}
