/**
 * The tokens of a data directory: `tokens.jsonl`, one record a line. It holds hashes, never a token.
 *
 * Invariants. The file is the state: read whole, and replaced whole by a rename under a lock that is held for
 * milliseconds. So a reader finds the tokens before a change or those after it, and a change counts once it is
 * on disk. If a line is no record, or a hash appears twice, the whole file is invalid. Otherwise an old backup that
 * somebody appends could revive a revoked token. A missing file means no tokens.
 */
import path from "node:path";
import { clock } from "../clock.ts";
import {
  decodeTokenRecord,
  encodeTokenRecord,
  formatToken,
  isLive,
  makeRecord,
  type NewToken,
  revokeAll,
  selectNew,
  TOKEN_BYTES,
  type TokenRecord,
  tokenExists,
} from "../core/token.ts";
import { allowMissing, disk, withIoError } from "../log/disk.ts";
import { replaceFile } from "../log/file.ts";
import { ensureFolder, TOKENS_NAME } from "../log/folder.ts";
import { lineError } from "../log/lines.ts";
import { locks } from "../log/lock.ts";

const LOCK = { name: "tokens-lock", command: "token", waitMs: 5000 };

/** @internal */
export function tokensPathOf(directory: string): string {
  return path.join(path.resolve(directory), TOKENS_NAME);
}

/** @throws PlantStoreError `corruption`, which names the line. @internal */
export function parseTokenFile(filePath: string, bytes: Buffer): TokenRecord[] {
  const tokens = new Map<string, TokenRecord>();
  let [offset, line] = [0, 1];
  for (const text of bytes.toString("latin1").split("\n")) {
    try {
      const record = text === "" ? undefined : decodeTokenRecord(text);
      const twin = record && tokens.get(record.hash);
      if (twin) throw new Error(`hash: expected a new one, got that of token "${twin.name}" above`);
      if (record) tokens.set(record.hash, record);
    } catch (error) {
      const fault = `${(error as Error).message}; correct or remove this line with an editor`;
      throw lineError(filePath, { line, offset }, fault);
    }
    offset += text.length + 1;
    line++;
  }
  return [...tokens.values()];
}

/**
 * Creates a token and returns it. The token itself is stored nowhere, only its hash.
 *
 * @throws PlantStoreError `token_exists` if a live token has this name; `locked`, `io_error`, `write_failed` or
 * `corruption` if the token file cannot be changed.
 * @throws TypeError or RangeError if the name, the scopes or the expiry are invalid.
 */
export async function createToken(directory: string, newToken: NewToken): Promise<string> {
  const isTaken = (token: TokenRecord) => token.name === newToken.name;
  const token = await createUnless(directory, newToken, (live) => live.some(isTaken));
  if (token === undefined) throw tokenExists(newToken.name);
  return token;
}

/** Like `createToken`, but returns `undefined` and creates nothing if there is a live token. */
export function createFirstToken(directory: string, token: NewToken): Promise<string | undefined> {
  return createUnless(directory, token, (live) => live.length > 0);
}

async function createUnless(
  directory: string,
  newToken: NewToken,
  isTaken: (live: readonly TokenRecord[]) => boolean,
): Promise<string | undefined> {
  const token = formatToken(clock.randomBytes(TOKEN_BYTES));
  const record = makeRecord(token, newToken, clock.wallMs());
  await ensureFolder(directory);
  const isCreated = await change(directory, (tokens) => {
    const live = tokens.filter((other) => isLive(other, record.createdAt));
    return isTaken(live) ? undefined : [...tokens, record];
  });
  return isCreated ? token : undefined;
}

/**
 * Revokes the tokens of this name, even expired ones; a running server refuses them within 2 s.
 *
 * @throws PlantStoreError `token_unknown` if no token of this name can be revoked; else as `createToken`.
 */
export async function revokeToken(directory: string, name: string): Promise<void> {
  await change(directory, (tokens) => revokeAll(tokens, name, clock.wallMs()));
}

/**
 * Every token ever created in this directory, oldest first. It syncs the folder: a killed change may not have.
 *
 * @throws PlantStoreError `corruption`; `io_error` if the file cannot be read.
 */
export async function listTokens(directory: string): Promise<readonly TokenRecord[]> {
  const filePath = tokensPathOf(directory);
  const bytes = await disk.readFile(filePath).catch(allowMissing(filePath));
  if (bytes === undefined) return [];
  await withIoError(`Cannot sync "${directory}"`, () => disk.syncFolder(path.dirname(filePath)));
  return parseTokenFile(filePath, bytes).toSorted((a, b) => a.createdAt - b.createdAt);
}

/**
 * Imports what `listTokens` has listed of another store: all tokens, or none. A token that is there already
 * stays as it is. Resolves with how many are new.
 *
 * @throws PlantStoreError `token_exists` if another live token has the name of a new one; `corruption` if
 * a record is not possible; else as `createToken`.
 */
export async function importTokens(
  directory: string,
  records: Iterable<TokenRecord>,
): Promise<number> {
  await ensureFolder(directory);
  let added: TokenRecord[] = [];
  await change(directory, (tokens) => {
    added = selectNew(tokens, records, clock.wallMs());
    return added.length > 0 ? [...tokens, ...added] : undefined;
  });
  return added.length;
}

/** Replaces the tokens by what `make` returns; changes nothing, and returns `false`, if that is `undefined`. */
async function change(
  directory: string,
  make: (tokens: readonly TokenRecord[]) => readonly TokenRecord[] | undefined,
): Promise<boolean> {
  const lock = await locks.acquire(directory, LOCK);
  try {
    const tokens = make(await listTokens(directory));
    if (tokens === undefined) return false;
    const text = tokens.map((token) => `${encodeTokenRecord(token)}\n`).join("");
    await replaceFile(tokensPathOf(directory), (file) => file.append(Buffer.from(text)), lock);
    return true;
  } finally {
    await lock.close();
  }
}
