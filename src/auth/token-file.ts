/**
 * `tokens.jsonl` on disk: read whole, appended to under its own lock.
 *
 * The lock is held for milliseconds and waited for, so that tokens can be created and revoked beside
 * a running server and by many processes at once. An event counts once its line is durable. A last
 * line that lacks only its line feed counts, too: it may be a revocation.
 */

import { randomBytes } from "node:crypto";
import fs from "node:fs";
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
import { encodeLine, isBlank, type LinePosition } from "../log/format.ts";
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
  if (!fs.existsSync(tokenPath(directory))) throw unknown; // nothing is made where nothing is
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
 * Reads a token log again and again, and parses only what was appended since the last time. All of
 * it is read, because an editor may have changed any byte: what was parsed before must still have
 * its checksum.
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
  #known: (TokenScan & { readonly crc32: number }) | undefined;

  constructor(filePath: string) {
    this.#path = filePath;
  }

  /**
   * The tokens in the log, `undefined` if there is no such file. The next call changes the set that
   * this one has returned.
   *
   * @throws PlantStoreError `corruption` or `io_error`.
   */
  async read(): Promise<TokenSet | undefined> {
    const bytes = await this.#readBytes();
    if (bytes === undefined) return undefined;
    const known = this.#known;
    this.#known = undefined; // until all of it was parsed
    const isThere =
      known !== undefined &&
      bytes.length >= known.tail.offset &&
      checksum(bytes, known.tail) === known.crc32;
    const scan = await scanTokens(logOf(this.#path, bytes), isThere ? known : undefined);
    const last = parseTail(bytes.subarray(scan.tail.offset));
    if (last === undefined) this.#known = { ...scan, crc32: checksum(bytes, scan.tail) };
    else scan.tokens.apply(last);
    return scan.tokens;
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

  async #readBytes(): Promise<Buffer | undefined> {
    let fd: number | undefined;
    try {
      // The spare is freed in the turn of the open: a connection that is accepted would take it.
      this.#spare.free();
      fd = fs.openSync(this.#path, O_RDONLY | O_NONBLOCK); // else a FIFO would be waited for
      const stat = fs.fstatSync(fd);
      if (!stat.isFile()) throw new Error("expected a regular file");
      return await readWhole(fd, stat.size);
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw ioError(`Cannot read "${this.#path}"`, cause);
    } finally {
      if (fd !== undefined) fs.closeSync(fd);
      this.#spare.keep();
    }
  }
}

const { O_NONBLOCK, O_RDONLY } = fs.constants;
const readAt = promisify(fs.read);

/** Not `fs.readFile`: with a descriptor it takes a read that fails for the end of the file. */
async function readWhole(fd: number, bytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(bytes);
  for (let filled = 0; filled < bytes; ) {
    const { bytesRead } = await readAt(fd, buffer, filled, bytes - filled, filled);
    if (bytesRead === 0) return buffer.subarray(0, filled);
    filled += bytesRead;
  }
  return buffer;
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

/** A failed append may leave the event in the file, torn or whole, but never without an error. */
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
      const end = await mendLog(file, {
        damaged: [],
        tail,
        isRecord: (text) => parseTail(text) !== undefined,
      });
      // An event that was never synced must not be answered by "it is done already".
      await rewriteLastBatch(file, end);
      if (end > tail.offset) await scanTokens(file, scan);
      return await change(scan.tokens, (event) =>
        file.appendOrThrow(Buffer.from(encodeLine(encodeTokenEvent(event)))),
      );
    } finally {
      await file.close();
    }
  } finally {
    await lock.close();
  }
}

/** A token log that is read: a file, or the bytes of one. */
type TokenLog = ReadableFile & Pick<LogFile, "end">;

function logOf(filePath: string, bytes: Buffer): TokenLog {
  return {
    path: filePath,
    end: bytes.length,
    read: async (buffer, position) => {
      await new Promise(setImmediate); // to parse a block takes a few milliseconds
      return bytes.subarray(position).copy(buffer);
    },
  };
}

interface TokenScan {
  readonly tokens: TokenSet;
  /** Where the whole lines end. */
  readonly tail: LinePosition;
}

const BLOCK_BYTES = 128 * 1024;

/** Parses what comes after an earlier scan, into the set of that one. */
async function scanTokens(file: TokenLog, from?: TokenScan): Promise<TokenScan> {
  const tokens = from?.tokens ?? new TokenSet();
  let tail = from?.tail ?? LOG_START;
  for await (const block of readBlocks(file, tail, file.end, { blockBytes: BLOCK_BYTES })) {
    visitLines(block, (line, position) => tokens.apply(decodeEventAt(line, file.path, position)));
    tail = positionAfter(block);
  }
  return { tokens, tail };
}

/** The CRC-32 of the bytes before a position. */
function checksum(bytes: Buffer, { offset }: LinePosition): number {
  return crc32(bytes.subarray(0, offset));
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

/** What follows the last line feed; `undefined` for nothing, and for an append under way. */
function parseTail(text: Buffer): TokenEvent | undefined {
  try {
    return isBlank(text) ? undefined : decodeTokenEvent(text);
  } catch {
    return undefined;
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
