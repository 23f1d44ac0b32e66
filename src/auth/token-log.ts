/**
 * The token log, `tokens.jsonl`: its events, one a line, the set of tokens that follows from them, and how the
 * file is read.
 *
 * The order of the lines is the order of events; the clock decides expiry alone. An unknown member of
 * an event is ignored, an unknown event is damage. A last line that lacks only its line feed counts, because
 * it may be a revocation; any other text after the last line feed is an append under way. The whole file is
 * read each time, because an editor may have changed any byte, but only the lines that were added to it are
 * parsed. Changes no event, and knows neither the lock nor who asks.
 */
import path from "node:path";
import { crc32 } from "node:zlib";
import { turn } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import { TOKEN_LOG_NAME } from "../core/file-names.ts";
import {
  decodeTokenRecord,
  isLive,
  parseTime,
  parseTokenName,
  type TokenRecord,
} from "../core/token.ts";
import { LogFile } from "../log/file.ts";
import { useAndClose } from "../log/folder.ts";
import {
  isBlank,
  type LinePosition,
  LOG_START,
  lineError,
  markLength,
  positionAfter,
  splitLines,
  visitLines,
} from "../log/lines.ts";
import { syncLog } from "../log/resync.ts";

/**
 * An import is one event, and so one line: of several lines a crash could leave some. Measured: while a
 * server follows one, other work waits for 55 ms with 10,000 tokens, and for 232 ms with 50,000.
 *
 * @internal
 */
export type TokenEvent =
  | ({ readonly event: "created" } & Omit<TokenRecord, "revokedAt">)
  | { readonly event: "revoked"; readonly name: string; readonly revokedAt: number }
  | { readonly event: "imported"; readonly tokens: readonly TokenRecord[] };

/** @throws PlantStoreError `corruption` if the line is no event of this log. @internal */
export function decodeTokenEvent(line: Buffer): TokenEvent {
  const members = parseMembers(line);
  const { event, tokens } = members;
  if (event === "created") {
    return { event, ...decodeTokenRecord({ ...members, revokedAt: undefined }) };
  }
  if (event === "revoked") {
    return { event, name: parseTokenName(members), revokedAt: parseTime(members, "revokedAt") };
  }
  if (event !== "imported") throw damage('event: expected "created", "revoked" or "imported"');
  if (!Array.isArray(tokens)) throw damage("tokens: expected an array");
  return { event, tokens: tokens.map((token) => decodeTokenRecord(Object(token))) };
}

/** The members of a JSON object; none if it is another value. */
function parseMembers(line: Buffer): Record<string, unknown> {
  try {
    return Object(JSON.parse(line.toString("utf8")));
  } catch {
    throw damage("expected JSON");
  }
}

function damage(fault: string): PlantStoreError {
  return new PlantStoreError("corruption", fault);
}

type Token = Omit<TokenRecord, "revokedAt"> & { revokedAt?: number };

/** Every token of the log, in the order of creation. @internal */
export class TokenSet {
  readonly tokens: Token[] = [];
  /** The tokens that were not revoked, by name: a log may hold many that were. */
  readonly #unrevoked = new Map<string, Token[]>();

  apply(event: TokenEvent): void {
    if (event.event === "created") {
      const { event: _, ...token } = event;
      this.#add(token);
    } else if (event.event === "imported") this.#import(event.tokens);
    else {
      // A name may be used again after its token expired, so a revocation ends every token of the name.
      for (const token of this.#unrevoked.get(event.name) ?? []) token.revokedAt = event.revokedAt;
      this.#unrevoked.delete(event.name);
    }
  }

  #add(token: Token): void {
    this.tokens.push(token);
    if (token.revokedAt !== undefined) return;
    const namesakes = this.#unrevoked.get(token.name);
    if (namesakes === undefined) this.#unrevoked.set(token.name, [token]);
    else namesakes.push(token);
  }

  /** Adds new tokens. A known one is revoked if the import has it revoked; others of its name stay. */
  #import(tokens: readonly TokenRecord[]): void {
    const known = new Map(this.tokens.map((token) => [token.hash, token]));
    for (const token of tokens) {
      const { name, hash, revokedAt } = token;
      const there = known.get(hash);
      if (there === undefined) {
        const added = { ...token };
        known.set(hash, added);
        this.#add(added);
      } else if (there.revokedAt === undefined && revokedAt !== undefined) {
        there.revokedAt = revokedAt;
        const others = this.#unrevoked.get(name)?.filter((other) => other !== there);
        this.#unrevoked.set(name, others ?? []);
      }
    }
  }

  live(now: number): TokenRecord[] {
    return [...this.#unrevoked.values()].flat().filter((token) => isLive(token, now));
  }
}

/** What is parsed in one turn of the event loop: a few milliseconds. */
const PIECE_BYTES = 128 * 1024;

/** @internal */
export function tokenPath(directory: string): string {
  return path.join(path.resolve(directory), TOKEN_LOG_NAME);
}

/**
 * Makes a token log durable that an editor may have written or removed.
 *
 * @throws PlantStoreError as `syncLog`.
 * @internal
 */
export function syncTokens(filePath: string): Promise<void> {
  return syncLog(
    filePath,
    '"plant-store token create", "token revoke" or "token import" replaces it by a copy',
  );
}

interface ParsedTokens {
  /** What follows from the whole lines. */
  readonly tokens: TokenSet;
  /** Where the whole lines end. */
  readonly tail: LinePosition;
}

/**
 * Parses a token log.
 *
 * @param known an earlier result for the same log, whose set gets the events that follow.
 * @returns the whole lines, and the event of a last line that lacks only its line feed.
 * @throws PlantStoreError `corruption`.
 */
export async function parseTokens(
  filePath: string,
  bytes: Buffer,
  known: ParsedTokens = { tokens: new TokenSet(), tail: LOG_START },
): Promise<ParsedTokens & { readonly last: TokenEvent | undefined }> {
  const { tokens } = known;
  let { tail } = known;
  for await (const block of splitLines(piecesOf(bytes.subarray(tail.offset)), tail)) {
    visitLines(block, (line, position) => tokens.apply(decodeAt(line, filePath, position)));
    tail = positionAfter(block);
  }
  const rest = bytes.subarray(tail.offset);
  return {
    tokens,
    tail,
    last: parseTail(tail.offset === 0 ? rest.subarray(markLength(rest)) : rest),
  };
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    await turn();
    yield bytes.subarray(at, at + PIECE_BYTES);
  }
}

function decodeAt(line: Buffer, filePath: string, position: LinePosition): TokenEvent {
  try {
    return decodeTokenEvent(line);
  } catch (cause) {
    const fault = `${(cause as Error).message}; mend or remove that line with an editor`;
    throw lineError(filePath, position, fault, cause);
  }
}

/** A line feed that was not written when the power went, or the disk failed, may be a zero. */
function parseTail(text: Buffer): TokenEvent | undefined {
  try {
    const event = text.at(-1) === 0 ? text.subarray(0, -1) : text;
    return isBlank(event) ? undefined : decodeTokenEvent(event);
  } catch {
    return undefined;
  }
}

/** Reads one token log again and again: what was parsed before must still have its checksum. */
export class TokenReader {
  readonly #path: string;
  /** What was parsed so far; absent if the next read cannot continue from there. */
  #known: (ParsedTokens & { readonly crc32: number }) | undefined;

  constructor(filePath: string) {
    this.#path = filePath;
  }

  /**
   * Returns the tokens in the log, or `undefined` if there is no such file. The next call changes the
   * set that this one has returned.
   *
   * @throws PlantStoreError `corruption` or `io_error`.
   */
  async read(): Promise<TokenSet | undefined> {
    const bytes = await this.#readBytes();
    if (bytes === undefined) return undefined;
    const known = this.#known;
    this.#known = undefined; // until all of it was parsed
    const isPrefix = known !== undefined && checksum(bytes, known) === known.crc32;
    const parsed = await parseTokens(this.#path, bytes, isPrefix ? known : undefined);
    const { tokens, last } = parsed;
    if (last === undefined) this.#known = { ...parsed, crc32: checksum(bytes, parsed) };
    else tokens.apply(last);
    return tokens;
  }

  async #readBytes(): Promise<Buffer | undefined> {
    const file = await LogFile.openForReading(this.#path);
    if (file === undefined) return undefined;
    return useAndClose(file, async () => {
      const bytes = Buffer.allocUnsafe(file.size());
      return bytes.subarray(0, await file.read(bytes, 0));
    });
  }
}

/** The CRC-32 of the bytes before the end of what was parsed. */
function checksum(bytes: Buffer, { tail }: ParsedTokens): number {
  return crc32(bytes.subarray(0, tail.offset));
}
