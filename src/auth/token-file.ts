/**
 * Creates, revokes, lists and imports the tokens of a data directory.
 *
 * A change takes a lock of its own for milliseconds and waits for it, so that tokens can be changed
 * beside a running server and by many processes at once. It counts once its line is durable.
 */
import { crc32 } from "node:zlib";
import { clock } from "../clock.ts";
import {
  encodeTokens,
  formatToken,
  makeRecord,
  mergeTokens,
  type NewToken,
  TOKEN_BYTES,
  type TokenRecord,
  tokenExists,
  tokenUnknown,
} from "../core/token.ts";
import { LogFile } from "../log/file.ts";
import { ensureDirectory, removeLeftover, TOKEN_LOCK_NAME, useAndClose } from "../log/folder.ts";
import { LINE_FEED } from "../log/lines.ts";
import { locks } from "../log/lock.ts";
import { mendLog } from "../log/mend.ts";
import { makeDurable, newLogPath, syncFound } from "../log/resync.ts";
import { syncTokens, type TokenEvent, TokenReader, TokenSet, tokenPath } from "./token-log.ts";

const LOCK_WAIT_MS = 5000;

/**
 * Creates a token and returns it. The token itself is stored nowhere, only its hash.
 *
 * @throws PlantStoreError `token_exists` if a live token has this name;
 * `locked`, `io_error` or `corruption` if the token log cannot be written.
 * @throws TypeError or RangeError if the name, the scopes or the expiry are invalid.
 */
export async function createToken(directory: string, newToken: NewToken): Promise<string> {
  const { name } = newToken;
  const token = await createUnless(directory, newToken, (live) => hasName(live, name));
  if (token === undefined) throw tokenExists(name);
  return token;
}

/** Like `createToken`, but returns `undefined` and creates nothing if there is a live token. */
export async function createFirstToken(
  directory: string,
  newToken: NewToken,
): Promise<string | undefined> {
  return createUnless(directory, newToken, (live) => live.length > 0);
}

/**
 * Revokes the live token of this name; a running server refuses it within 2 s.
 *
 * @throws PlantStoreError `token_unknown`; `locked`, `io_error` or `corruption` if the token log
 * cannot be written.
 */
export async function revokeToken(directory: string, name: string): Promise<void> {
  const filePath = tokenPath(directory);
  const file = await LogFile.openForReading(filePath);
  await file?.close();
  if (file === undefined) {
    await syncTokens(filePath); // that it is missing must be on disk, too
    throw tokenUnknown(name); // create no folder for this
  }
  await changeTokens(directory, async (tokens, append) => {
    const now = clock.wallMs();
    if (!hasName(tokens.live(now), name)) throw tokenUnknown(name);
    await append({ event: "revoked", name, revokedAt: now });
  });
}

/**
 * Every token ever created in this directory, oldest first; none if there is no token log. What is
 * listed is on disk, also if an editor has changed the token log.
 *
 * @throws PlantStoreError `corruption`; `unsynced` if a sync of the token log has failed since a change
 * replaced it; `io_error` if it cannot be read.
 */
export async function listTokens(directory: string): Promise<readonly TokenRecord[]> {
  const tokens = await new TokenReader(tokenPath(directory)).read();
  await syncTokens(tokenPath(directory));
  return (tokens?.tokens ?? []).toSorted(
    (a, b) => a.createdAt - b.createdAt || Number(a.hash > b.hash) - Number(a.hash < b.hash),
  );
}

/**
 * Imports the tokens that `listTokens` has listed, of another store: all, or none. A token that is there
 * already stays as it is. A running server accepts the new ones within 2 s.
 *
 * @returns how many tokens are new.
 * @throws PlantStoreError `token_exists` if another live token has the name of a new one; `corruption` if a
 * record has an invalid name, hash or scope; `locked`, `io_error`, `unsynced` or `corruption` if the token log
 * cannot be written.
 * @throws RangeError if a time is not a number, or more than a date can hold.
 */
export async function importTokens(
  directory: string,
  records: Iterable<TokenRecord>,
): Promise<number> {
  return changeTokens(directory, async ({ tokens }, append) => {
    const { added } = mergeTokens(tokens, records, clock.wallMs());
    if (added.length > 0) await append({ event: "imported", tokens: added });
    return added.length;
  });
}

/** @internal */
export function generateToken(): string {
  return formatToken(clock.randomBytes(TOKEN_BYTES));
}

function hasName(tokens: readonly TokenRecord[], name: string): boolean {
  return tokens.some((token) => token.name === name);
}

async function createUnless(
  directory: string,
  newToken: NewToken,
  isTaken: (live: readonly TokenRecord[]) => boolean,
): Promise<string | undefined> {
  const token = generateToken();
  const record = makeRecord(token, newToken, clock.wallMs());
  return changeTokens(directory, async (tokens, append) => {
    if (isTaken(tokens.live(clock.wallMs()))) return undefined;
    await append({ event: "created", ...record });
    return token;
  });
}

/** If it rejects, the event may still be in the file, torn or whole. */
type AppendEvent = (event: TokenEvent) => Promise<void>;

/** Runs one change of the token log under its lock. */
async function changeTokens<T>(
  directory: string,
  change: (tokens: TokenSet, append: AppendEvent) => Promise<T>,
): Promise<T> {
  await ensureDirectory(directory);
  const options = { name: TOKEN_LOCK_NAME, command: "token", waitMs: LOCK_WAIT_MS };
  const filePath = tokenPath(directory);
  return useAndClose(await locks.acquire(directory, options), async (lock) => {
    const found = await useAndClose(await LogFile.open(filePath, lock), recoverTokens);
    // Opened once more, because it may have been replaced by a copy.
    return useAndClose(await LogFile.open(filePath, lock), async (file) => {
      file.assertInPlace(found.end);
      // First the event, then its line feed: so a power cut leaves no line with its line feed that lacks a sector.
      const append = async (event: TokenEvent) => {
        await file.appendOrThrow(Buffer.from(encodeTokens(event)));
        // Without room for it the event counts all the same, and the next change completes its line.
        await file.appendOrThrow(Buffer.of(LINE_FEED), { mayBeRefused: true });
      };
      return change(found.tokens, append);
    });
  });
}

/** Reads the tokens, and makes their log whole lines that are on disk, also those of an editor. */
async function recoverTokens(
  file: LogFile,
): Promise<{ readonly tokens: TokenSet; readonly end: number }> {
  const bytes = Buffer.alloc(file.end + 1, "\n"); // with the line feed that the last line may lack
  await file.read(bytes.subarray(0, file.end), 0);
  const tokens = new TokenSet();
  const isUnfinished = await tokens.parse(file.path, bytes.subarray(0, file.end));
  await syncFound(file); // before a write of the mend reports, and so hides, an earlier failure
  if (isUnfinished && !/[} \t\r]/.test(String.fromCharCode(bytes[file.end - 1] ?? 0))) {
    // Its line feed arrived as another byte (see `parseTail`). The cut moves `file.end`.
    await file.truncate(file.end - 1);
    bytes.fill(LINE_FEED, file.end);
  }
  const end = await mendLog(file, { lost: [], tail: tokens.tail, isRecord: () => isUnfinished });
  await makeDurable(file, { bytes: end, records: 0, crc32: crc32(bytes.subarray(0, end)) });
  removeLeftover(newLogPath(file.path)); // of a process that was killed
  return { tokens, end };
}
