/**
 * The token log, `tokens.jsonl`: its events, one a line, the set of tokens that follows from them, and how the
 * file is read.
 *
 * The order of the lines is the order of events; the clock decides expiry alone. A line is damage if the disk
 * may have made it of a revocation or an expiry: an unknown event or member, or a revocation that ends no
 * token. So a flipped bit revives no token. A last line that lacks only its line feed counts, because
 * it may be a revocation; any other text after the last line feed is an append under way. The whole file is
 * read each time, because an editor may have changed any byte, but only the lines that were added to it are
 * parsed. Changes no event, and knows neither the lock nor who asks.
 */
import path from "node:path";
import { crc32 } from "node:zlib";
import { turn } from "../clock.ts";
import { PlantStoreError } from "../core/errors.ts";
import {
  decodeTokenRecord,
  isLive,
  parseMembers,
  parseTime,
  parseTokenName,
  requireMembers,
  type TokenRecord,
} from "../core/token.ts";
import { LogFile } from "../log/file.ts";
import { TOKEN_LOG_NAME } from "../log/folder.ts";
import { isBlank, LINE_FEED, LOG_START, lineError, markLength } from "../log/lines.ts";
import { syncLog } from "../log/resync.ts";

/**
 * An import is one event, and so one line: of several lines a crash could leave some. Measured: while a
 * server follows one, other work waits for 55 ms with 10,000 tokens, and for 232 ms with 50,000.
 *
 * @internal
 */
export type TokenEvent =
  | ({ readonly event: "created" } & TokenRecord)
  | { readonly event: "revoked"; readonly name: string; readonly revokedAt: number }
  | { readonly event: "imported"; readonly tokens: readonly TokenRecord[] };

/** @throws PlantStoreError `corruption` if the line is no event of this log. @internal */
export function decodeTokenEvent(line: Buffer): TokenEvent {
  const { event, ...members } = parseMembers(line.toString("utf8"));
  if (event === "created") return { event, ...decodeTokenRecord(members) };
  if (event === "revoked") {
    requireMembers(members, ["name", "revokedAt"]);
    return { event, name: parseTokenName(members), revokedAt: parseTime(members, "revokedAt") };
  }
  if (event !== "imported") throw damage('event: expected "created", "revoked" or "imported"');
  requireMembers(members, ["tokens"]);
  const { tokens } = members;
  if (!Array.isArray(tokens)) throw damage("tokens: expected an array");
  return { event, tokens: tokens.map((token) => decodeTokenRecord(Object(token))) };
}

function damage(fault: string): PlantStoreError {
  return new PlantStoreError("corruption", fault);
}

const ADVICE = "mend or remove that line with an editor";

type Token = Omit<TokenRecord, "revokedAt"> & { revokedAt?: number };

/** What is parsed in one turn of the event loop: a few milliseconds. */
const TURN_BYTES = 128 * 1024;

/**
 * Every token of a log, in the order of creation. A hash is one token, and once revoked it stays revoked: a
 * line that creates it again was repeated by an editor, or by a disk that has old sectors.
 *
 * @internal
 */
export class TokenSet {
  readonly #tokens = new Map<string, Token>();
  /** The tokens of each name since it was last revoked: a log may hold many that were. */
  readonly #named = new Map<string, Token[]>();
  /** Where the lines end that `parse` has applied. */
  tail = LOG_START;

  /**
   * Applies the lines that follow those it has applied, and a last one that lacks only its line feed.
   *
   * @param bytes the whole log.
   * @returns whether there is such a last line: then nothing more can be applied.
   * @throws PlantStoreError `corruption`.
   */
  async parse(filePath: string, bytes: Buffer): Promise<boolean> {
    let { offset, line } = this.tail;
    if (offset === 0) offset = markLength(bytes);
    const linesEnd = bytes.lastIndexOf(LINE_FEED) + 1;
    let turnEnd = offset + TURN_BYTES;
    while (offset < linesEnd) {
      const end = bytes.indexOf(LINE_FEED, offset);
      if (end > turnEnd) {
        await turn();
        turnEnd = end + TURN_BYTES;
      }
      const text = bytes.subarray(offset, end);
      try {
        if (!isBlank(text)) this.apply(decodeTokenEvent(text));
      } catch (cause) {
        const fault = `${(cause as Error).message}; ${ADVICE}`;
        throw lineError(filePath, { offset, line }, fault, cause);
      }
      offset = end + 1;
      line++;
    }
    this.tail = { offset, line };
    const last = parseTail(bytes.subarray(offset));
    if (last === undefined) return false;
    try {
      this.apply(last);
    } catch (cause) {
      throw lineError(filePath, this.tail, `${(cause as Error).message}; ${ADVICE}`, cause);
    }
    return true;
  }

  /** @throws PlantStoreError `corruption` for a revocation that ends no token. */
  apply(event: TokenEvent): void {
    if (event.event === "created") {
      const { event: _, ...token } = event;
      this.#add(token);
    } else if (event.event === "imported") {
      for (const token of event.tokens) this.#add({ ...token });
    } else {
      // A name may be used again after its token expired, so a revocation ends every token of the name.
      const ended = this.#named.get(event.name)?.filter((token) => token.revokedAt === undefined);
      // The disk has changed this name, or that of the token, which would be live again.
      if (!ended?.length) throw damage("name: expected that of a token that is not revoked yet");
      for (const token of ended) token.revokedAt = event.revokedAt;
      this.#named.delete(event.name);
    }
  }

  /** Adds a new token. A known one is revoked if this one is. */
  #add(token: Token): void {
    const known = this.#tokens.get(token.hash);
    if (known === undefined) {
      this.#tokens.set(token.hash, token);
      const namesakes = this.#named.get(token.name);
      if (namesakes === undefined) this.#named.set(token.name, [token]);
      else namesakes.push(token);
    } else if (token.revokedAt !== undefined) known.revokedAt ??= token.revokedAt;
  }

  get tokens(): TokenRecord[] {
    return [...this.#tokens.values()];
  }

  live(now: number): TokenRecord[] {
    return this.tokens.filter((token) => isLive(token, now));
  }
}

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

/** Its line feed may be missing, or a zero that a power cut left, or any other byte that the disk made of it. */
function parseTail(text: Buffer): TokenEvent | undefined {
  for (const event of [text, text.subarray(0, -1)]) {
    try {
      return isBlank(event) ? undefined : decodeTokenEvent(event);
    } catch {}
  }
  return undefined;
}

/** Reads one token log again and again. */
export class TokenReader {
  readonly #path: string;
  /** What was parsed so far; absent if the next read cannot continue from there. */
  #known: { readonly tokens: TokenSet; readonly crc32: number } | undefined;

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
    const isPrefix =
      known !== undefined && crc32(bytes.subarray(0, known.tokens.tail.offset)) === known.crc32;
    const tokens = isPrefix ? known.tokens : new TokenSet();
    if (await tokens.parse(this.#path, bytes)) return tokens;
    this.#known = { tokens, crc32: crc32(bytes.subarray(0, tokens.tail.offset)) };
    return tokens;
  }

  async #readBytes(): Promise<Buffer | undefined> {
    const file = await LogFile.openForReading(this.#path);
    if (file === undefined) return undefined;
    try {
      const bytes = Buffer.allocUnsafe(file.size());
      return bytes.subarray(0, await file.read(bytes, 0));
    } finally {
      await file.close();
    }
  }
}
