/**
 * `tokens.jsonl` on disk: read whole, appended to under its own lock.
 *
 * The lock is held for milliseconds and waited for, so that tokens can be
 * created and revoked beside a running server and by many processes at once.
 * An event counts once its line is durable. A last line that is whole but for
 * its line feed counts too: it may be a revocation.
 */

import { randomBytes } from "node:crypto";
import fs, { existsSync } from "node:fs";
import { devNull } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { crc32 } from "node:zlib";
import { PlantStoreError } from "../core/errors.ts";
import { TOKEN_LOCK_NAME, TOKEN_LOG_NAME } from "../core/file-names.ts";
import { isTokenName, SCOPES, type Scope } from "../core/services.ts";
import { formatToken, hashToken, TOKEN_BYTES } from "../core/token.ts";
import { LogFile } from "../log/file.ts";
import { ensureDirectory } from "../log/folder.ts";
import type { LinePosition } from "../log/format.ts";
import { encodeLine, isBlank } from "../log/format.ts";
import { DirectoryLock } from "../log/lock.ts";
import { mendLog, rewriteLastBatch } from "../log/mend.ts";
import {
  LOG_START,
  lineError,
  positionAfter,
  type ReadableFile,
  readBlocks,
  visitLines,
} from "../log/reader.ts";
import { ioError } from "../log/system-error.ts";
import {
  decodeTokenEvent,
  encodeTokenEvent,
  isLive,
  type TokenEvent,
  type TokenRecord,
  TokenSet,
} from "./token-log.ts";

const LOCK_WAIT_MS = 5000;

export interface NewToken {
  /**
   * 1 to 64 letters, digits, `.`, `_`, `@` and `-`, the first a letter or digit; no live token may
   * have it.
   */
  readonly name: string;
  /** Default: `write` alone. */
  readonly scopes?: readonly Scope[];
  /** Milliseconds since 1970, UTC; default: never. */
  readonly expiresAt?: number;
}

/**
 * Creates a token and returns it. It is stored nowhere: only its hash is kept.
 *
 * @throws PlantStoreError `token_exists` when a live token has this name;
 * `locked`, `io_error` or `corruption` when the token log cannot be written.
 * @throws TypeError or RangeError when name, scopes or expiry are not possible.
 */
export async function createToken(directory: string, newToken: NewToken): Promise<string> {
  assertNewToken(newToken);
  return withTokenFile(directory, async (tokens, append) => {
    if (tokens.findLive(newToken.name, Date.now()) !== undefined) {
      throw new PlantStoreError(
        "token_exists",
        `Cannot create token "${newToken.name}": a live token has this name; ` +
          "choose another, or revoke that one first",
      );
    }
    return appendToken(newToken, append);
  });
}

/** Creates a token if no live one exists; `undefined` otherwise. Fails like `createToken`. */
export async function createFirstToken(
  directory: string,
  newToken: NewToken,
): Promise<string | undefined> {
  assertNewToken(newToken);
  return withTokenFile(directory, async (tokens, append) => {
    const now = Date.now();
    if (tokens.tokens.some((token) => isLive(token, now))) return undefined;
    return appendToken(newToken, append);
  });
}

/**
 * Revokes the live token of this name; a running server obeys within 2 s.
 *
 * @throws PlantStoreError `token_unknown`; `locked`, `io_error` or `corruption`
 * when the token log cannot be written.
 */
export async function revokeToken(directory: string, name: string): Promise<void> {
  const unknown = new PlantStoreError(
    "token_unknown",
    `Cannot revoke token "${name}": no live token has this name; "token list" shows them`,
  );
  if (!existsSync(tokenPath(directory))) throw unknown; // nothing is made where nothing is
  await withTokenFile(directory, async (tokens, append) => {
    const now = Date.now();
    if (tokens.findLive(name, now) === undefined) throw unknown;
    await append({ event: "revoked", name, revokedAt: now });
  });
}

/** Every token ever created in this directory, oldest first; none where there is no token log. */
export async function listTokens(directory: string): Promise<readonly TokenRecord[]> {
  return (await new TokenReader(tokenPath(directory)).read())?.tokens ?? [];
}

/** @internal */
export function tokenPath(directory: string): string {
  return path.join(path.resolve(directory), TOKEN_LOG_NAME);
}

/**
 * Reads a token log again and again, and parses only what was appended since the
 * last time. All of it is read: an editor may have changed any byte, so what was
 * parsed before must have the checksum that it had.
 *
 * Between two reads it can keep a descriptor, so that a process that may open no more files can
 * still read this one.
 *
 * @internal
 */
export class TokenReader {
  readonly #path: string;
  readonly #spare = new SpareDescriptor();
  /** What was parsed so far; absent if the next scan cannot go on from there. */
  #known: TokenScan | undefined;

  constructor(filePath: string) {
    this.#path = filePath;
  }

  /**
   * The tokens in the log, `undefined` if there is no such file. The next call
   * changes the set that this one has returned.
   *
   * @throws PlantStoreError `corruption` or `io_error`.
   */
  async read(): Promise<TokenSet | undefined> {
    const file = this.#open();
    if (file === undefined) return undefined;
    const known = this.#known;
    this.#known = undefined; // until all of it was parsed
    try {
      const isThere = known !== undefined && (await holds(file, known));
      const scan = await scanTokens(file, isThere ? known : undefined);
      const rest = Buffer.alloc(file.end - scan.tail.offset);
      await file.read(rest, scan.tail.offset);
      if (!isBlank(rest) && isEvent(rest)) scan.tokens.apply(decodeTokenEvent(rest));
      else this.#known = scan;
      return scan.tokens;
    } catch (cause) {
      if (cause instanceof PlantStoreError) throw cause;
      throw ioError(`Cannot read "${this.#path}"`, cause);
    } finally {
      await file.idle();
      file.close();
      this.#spare.keep();
    }
  }

  /** Keeps a descriptor from now on until `close`, except while the log itself is open. */
  keepSpare(): void {
    this.#spare.isWanted = true;
    this.#spare.keep();
  }

  close(): void {
    this.#spare.isWanted = false;
    this.#spare.free();
  }

  /** In one turn of the event loop, in which no connection is accepted: it would take the spare. */
  #open(): OpenTokenLog | undefined {
    this.#spare.free();
    try {
      return new OpenTokenLog(this.#path);
    } catch (cause) {
      this.#spare.keep();
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw ioError(`Cannot open "${this.#path}"`, cause);
    }
  }
}

/**
 * A descriptor that is kept for later. It is no descriptor of the token log, because another file
 * may take that name. Everything is synchronous, so only a thread that opens a file in the same
 * microseconds can take the place; then the next read takes it back, or fails.
 */
class SpareDescriptor {
  isWanted = false;
  #fd: number | undefined;

  keep(): void {
    if (!this.isWanted || this.#fd !== undefined) return;
    try {
      this.#fd = fs.openSync(devNull, "r");
    } catch {
      // No descriptor is left: the next read tries again.
    }
  }

  free(): void {
    if (this.#fd !== undefined) fs.closeSync(this.#fd);
    this.#fd = undefined;
  }
}

const readAt = promisify(fs.read);

/** A token log that is open for reading. Opening never waits, neither for a FIFO's writer. */
class OpenTokenLog implements ReadableFile {
  readonly path: string;
  /** How long the file was when it was opened. */
  readonly end: number;
  readonly #fd: number;
  readonly #reads = new Set<Promise<unknown>>();

  /** @throws the system's error; Error when it is no regular file. */
  constructor(filePath: string) {
    this.path = filePath;
    this.#fd = fs.openSync(filePath, fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0));
    try {
      const stat = fs.fstatSync(this.#fd);
      if (!stat.isFile()) throw new Error("expected a regular file");
      this.end = stat.size;
    } catch (error) {
      this.close();
      throw error;
    }
  }

  /** See `LogFile.read`. */
  async read(buffer: Buffer, position: number): Promise<number> {
    let filled = 0;
    while (filled < buffer.length) {
      const length = buffer.length - filled;
      const reading = readAt(this.#fd, buffer, filled, length, position + filled);
      this.#reads.add(reading);
      const { bytesRead } = await reading.finally(() => this.#reads.delete(reading));
      if (bytesRead === 0) break;
      filled += bytesRead;
    }
    return filled;
  }

  /** Resolves when no read is under way: what closes before takes the descriptor from a thread. */
  async idle(): Promise<void> {
    await Promise.allSettled(this.#reads);
  }

  close(): void {
    fs.closeSync(this.#fd);
  }
}

type AppendEvent = (event: TokenEvent) => Promise<void>;

/** Runs one change of the token log under its lock. */
async function withTokenFile<T>(
  directory: string,
  change: (tokens: TokenSet, append: AppendEvent) => Promise<T>,
): Promise<T> {
  await ensureDirectory(directory);
  const lock = await DirectoryLock.acquire(directory, {
    name: TOKEN_LOCK_NAME,
    command: "token",
    waitMs: LOCK_WAIT_MS,
  });
  try {
    const file = await LogFile.open(tokenPath(directory));
    try {
      const scan = await scanTokens(file);
      const { tail } = scan;
      const end = await mendLog(file, { damaged: [], tail, isRecord: isEvent });
      // An event that was never synced must not be answered by "it is done already".
      await rewriteLastBatch(file, end);
      if (end > tail.offset) await scanTokens(file, scan);
      return await change(scan.tokens, (event) => appendEvent(file, event));
    } finally {
      await file.close();
    }
  } finally {
    await lock.close();
  }
}

/** An open token log, of a command or of a server. */
type TokenLog = ReadableFile & Pick<LogFile, "end">;

interface TokenScan {
  readonly tokens: TokenSet;
  /** Where the whole lines end. */
  readonly tail: LinePosition;
  /** The CRC-32 of the bytes before that. */
  readonly crc32: number;
}

/** To parse so much takes a few milliseconds; between two blocks the event loop goes on. */
const BLOCK_BYTES = 128 * 1024;

/** Parses what comes after an earlier scan, into the set of that one. */
async function scanTokens(file: TokenLog, from?: TokenScan): Promise<TokenScan> {
  const tokens = from?.tokens ?? new TokenSet();
  let tail = from?.tail ?? LOG_START;
  let sum = from?.crc32 ?? 0;
  for await (const block of readBlocks(file, tail, file.end, { blockBytes: BLOCK_BYTES })) {
    visitLines(block, (line, position) => tokens.apply(decodeEventAt(line, file.path, position)));
    sum = crc32(block.bytes, sum);
    tail = positionAfter(block);
  }
  return { tokens, tail, crc32: sum };
}

/** Whether a file begins with the very bytes of an earlier scan. */
async function holds(file: ReadableFile, { tail, crc32: expected }: TokenScan): Promise<boolean> {
  const buffer = Buffer.allocUnsafe(BLOCK_BYTES);
  let sum = 0;
  for (let offset = 0; offset < tail.offset; ) {
    const wanted = buffer.subarray(0, Math.min(buffer.length, tail.offset - offset));
    const got = await file.read(wanted, offset);
    if (got < wanted.length) return false;
    sum = crc32(wanted, sum);
    offset += got;
  }
  return sum === expected;
}

function decodeEventAt(line: Buffer, filePath: string, position: LinePosition): TokenEvent {
  try {
    return decodeTokenEvent(line);
  } catch (cause) {
    const { message } = cause as PlantStoreError;
    const advice = "mend or remove that line with an editor";
    throw lineError(filePath, position, `${message}; ${advice}`, cause);
  }
}

function isEvent(line: Buffer): boolean {
  try {
    decodeTokenEvent(line);
    return true;
  } catch {
    return false;
  }
}

/** @internal */
export function generateToken(): string {
  return formatToken(randomBytes(TOKEN_BYTES));
}

async function appendToken(
  { name, scopes = ["write"], expiresAt }: NewToken,
  append: AppendEvent,
): Promise<string> {
  const token = generateToken();
  const expiry = expiresAt === undefined ? {} : { expiresAt };
  await append({
    event: "created",
    name,
    hash: hashToken(token),
    scopes,
    createdAt: Date.now(),
    ...expiry,
  });
  return token;
}

/** A failed append may leave the event in the file, torn or whole, but never without an error. */
async function appendEvent(file: LogFile, event: TokenEvent): Promise<void> {
  await file.appendOrThrow(Buffer.from(encodeLine(encodeTokenEvent(event))));
}

function assertNewToken({ name, scopes = [], expiresAt }: NewToken): void {
  if (typeof name !== "string") throw new TypeError(`name: expected a string, got ${typeof name}`);
  if (!isTokenName(name)) {
    throw new RangeError(
      "name: expected 1 to 64 letters, digits, dots, underscores, @ and hyphens, " +
        `starting with a letter or digit, got "${name}"`,
    );
  }
  if (!Array.isArray(scopes) || !scopes.every((scope) => SCOPES.includes(scope))) {
    throw new RangeError(`scopes: expected an array of ${SCOPES.join(", ")}`);
  }
  if (expiresAt !== undefined && !(expiresAt > Date.now())) {
    throw new RangeError("expiresAt: expected a time in the future");
  }
}
