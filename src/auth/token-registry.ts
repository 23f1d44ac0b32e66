/**
 * The tokens of a running server: judged in memory, followed on disk.
 *
 * Invariants. A change of the token log is in force within 2 s, however it was made (appended,
 * edited, replaced by a rename): the file is looked at twice a second, because file system events do
 * not report every one of those. Or no token is accepted: when looks have failed for so long that
 * the promise could break, every verdict is `tokens_unreadable`, until a look succeeds. Only a look
 * that failed counts: one that is late (the process was stopped, threads are busy) is waited for. A
 * look fails if the file cannot be read, or a whole line of it is no event; an unfinished last line
 * is an append under way. A file that is missing for two looks means no tokens; for one, an editor
 * is saving it.
 */
import fs from "node:fs/promises";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { TokenStatus, TokenVerifier, VerifiedToken } from "../core/services.ts";
import { hashToken } from "../core/token.ts";
import { TokenReader, tokenPath } from "./token-file.ts";
import { isLive, type TokenRecord, type TokenSet } from "./token-log.ts";

const LOOK_INTERVAL_MS = 500;

/**
 * From the first look that failed until no token is accepted. Together with the interval less than
 * 2 s, because the file may have changed right after the last good look.
 */
const FAILED_LOOKS_MS = 1400;

/** A file changed this recently may change again within the same tick of its time stamp. */
const FRESH_MS = 2000;

interface JudgedToken {
  readonly record: TokenRecord;
  /** What `verify` returns. */
  readonly verified: VerifiedToken;
}

/** The token check that comes with the store: judges in memory by the token log, and follows it. */
export class TokenRegistry implements TokenVerifier {
  readonly #path: string;
  readonly #reader: TokenReader;
  /** By hash. How long a look-up takes depends on the hash, which reveals nothing of a token. */
  #judged = new Map<string, JudgedToken>();
  /** By what `verify` returns, which stays the same object while name and scopes do. */
  #givenOut = new Map<VerifiedToken, TokenRecord>();
  /** The state of the file when it was read; `undefined`: read it at the next look. */
  #stamp: string | undefined;
  #isMissing = false;
  /** When the first look failed after the last good one; on the monotonic clock. */
  #failingSince: number | undefined;
  #lastFault: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** One look at a time: a later one must not end before an earlier one. */
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;

  private constructor(filePath: string) {
    this.#path = filePath;
    this.#reader = new TokenReader(filePath);
  }

  /**
   * Reads the tokens of a data directory, which may be empty, and follows them until `close`.
   *
   * @throws PlantStoreError `corruption` or `io_error` when there is a log that cannot be read.
   */
  static async open(directory: string): Promise<TokenRegistry> {
    const registry = new TokenRegistry(tokenPath(directory));
    registry.#stamp = await registry.#readStamp();
    registry.#use(await registry.#reader.read());
    registry.#reader.keepSpare();
    registry.#scheduleLook();
    return registry;
  }

  /** Whether tokens are judged; `false` while the token log has been unreadable for too long. */
  get isReadable(): boolean {
    return (
      this.#failingSince === undefined || performance.now() - this.#failingSince < FAILED_LOOKS_MS
    );
  }

  /** @throws PlantStoreError `tokens_unreadable` while `isReadable` is false. */
  verify(token: string): VerifiedToken | undefined {
    this.#requireReadable();
    const found = this.#judged.get(hashToken(token));
    if (found === undefined || !isLive(found.record, Date.now())) return undefined;
    return found.verified;
  }

  /** @throws like `verify`. */
  isCurrent(verified: VerifiedToken): boolean {
    this.#requireReadable();
    const record = this.#givenOut.get(verified);
    return record !== undefined && isLive(record, Date.now());
  }

  /** The live tokens, for their operator. */
  list(): TokenStatus[] {
    const now = Date.now();
    return [...this.#givenOut.values()]
      .filter((record) => isLive(record, now))
      .map(({ name, scopes, expiresAt }) => ({ name, scopes, expiresAt }));
  }

  /** Looks at the file now, or after the look under way. Warns like every look. */
  refresh(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#look());
    return this.#looking;
  }

  /** Stops following the file. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#reader.close();
  }

  /** `close()`, for `using` and `await using`. */
  [Symbol.dispose](): void {
    this.close();
  }

  #scheduleLook(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(async () => {
      await this.refresh();
      this.#scheduleLook();
    }, LOOK_INTERVAL_MS);
    this.#timer.unref(); // following a file keeps no process alive
  }

  async #look(): Promise<void> {
    const begun = performance.now(); // a dying disk may report a failed read only after a minute
    try {
      const stamp = await this.#readStamp();
      if (stamp !== undefined && stamp === this.#stamp) {
        this.#noteGoodLook(false);
        return;
      }
      const tokens = await this.#reader.read();
      if (tokens === undefined && !this.#isMissing) {
        this.#isMissing = true;
        return;
      }
      this.#use(tokens);
      this.#stamp = stamp;
      this.#noteGoodLook(tokens === undefined);
    } catch (error) {
      this.#failingSince ??= begun;
      this.#warnOnce(error as Error);
    }
  }

  #noteGoodLook(isMissing: boolean): void {
    this.#isMissing = isMissing;
    this.#failingSince = undefined;
    this.#lastFault = undefined;
  }

  #requireReadable(): void {
    if (this.isReadable) return;
    throw new PlantStoreError(
      "tokens_unreadable",
      "Authorization: cannot judge tokens now, because the server cannot read its token file; " +
        "send the request again later",
    );
  }

  #use(tokens: TokenSet | undefined): void {
    const now = Date.now();
    const live = [...(tokens?.unrevoked() ?? [])].filter((record) => isLive(record, now));
    const judged = live.map((record): JudgedToken => {
      const { hash, name, scopes } = record;
      const known = this.#judged.get(hash)?.verified;
      // A stream goes on as long as its token: not only until another one is added.
      const isSame = known?.name === name && known.scopes.join() === scopes.join();
      return { record, verified: isSame ? known : { name, scopes } };
    });
    this.#judged = new Map(judged.map((token) => [token.record.hash, token]));
    this.#givenOut = new Map(judged.map(({ record, verified }) => [verified, record]));
  }

  /** Identifies a state of the file; `undefined` when it is missing or too fresh to trust. */
  async #readStamp(): Promise<string | undefined> {
    try {
      const { dev, ino, size, mtimeNs, ctimeNs, ctimeMs } = await fs.stat(this.#path, {
        bigint: true,
      });
      if (Date.now() - Number(ctimeMs) < FRESH_MS) return undefined;
      return [dev, ino, size, mtimeNs, ctimeNs].join(":");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  #warnOnce(error: Error): void {
    if (error.message === this.#lastFault) return;
    this.#lastFault = error.message;
    publishWarning(
      `Cannot follow the tokens of "${this.#path}": unless that succeeds within 2 s, requests with ` +
        "a token are answered 503 until it does",
      error,
    );
  }
}
