/** The lines of `token export` and `token import`, one token each: written, and read back strictly. */
import { readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { cut } from "../core/text.ts";
import { decodeTokenRecord, encodeTokens } from "../core/token.ts";
import { PlantStoreError, type TokenRecord } from "../index.ts";
import { printMessage } from "./output.ts";

export function encodeTokenLine(record: TokenRecord): string {
  return encodeTokens(record);
}

/**
 * The tokens in a file, or in standard input if it is `-`.
 *
 * @returns `undefined` if a line is refused; each one was named.
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

function parseTokens(lines: string): TokenRecord[] | undefined {
  let isRefused = false;
  const records = lines.split("\n").flatMap((line, at) => {
    try {
      return line.trim() === "" ? [] : [parseToken(line)];
    } catch (error) {
      isRefused = true;
      printMessage(`refused line ${at + 1}: ${(error as Error).message}`);
      return [];
    }
  });
  if (!isRefused) return records;
  printMessage("nothing was imported: expected lines that token export has printed");
  return undefined;
}

const MEMBERS = ["name", "hash", "scopes", "createdAt", "expiresAt", "revokedAt"];

/** Refuses any other member: it may be a misspelt expiry, or of a later release. */
function parseToken(line: string): TokenRecord {
  const members = Object(parseJson(line));
  const other = Object.keys(members).find((member) => !MEMBERS.includes(member));
  if (other !== undefined) throw new Error(`${cut(other)}: expected no such member`);
  return decodeTokenRecord(members);
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error("expected JSON"); // the parser's own message would show the line
  }
}
