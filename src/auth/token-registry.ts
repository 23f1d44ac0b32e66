/**
 * The tokens of a running server: judged in memory, followed on disk.
 *
 * Invariants. A change of the token log is in force within 2 s, however it was made (appended,
 * edited, replaced by a rename): the registry looks at the file ten times a second, because file
 * system events do not report all of those. A look fails if the file cannot be read, or if a whole
 * line of it is no event. After looks have failed for so long that the 2 s could pass, every verdict
 * is `tokens_unreadable` until a look succeeds. A look that is late (the process was stopped, threads
 * are busy) is no failure. A file that is missing for half a second means no tokens; until then an
 * editor may be saving it.
 */
import fs from "node:fs/promises";
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import type { TokenStatus, TokenVerifier, VerifiedToken } from "../core/services.ts";
import { LiveTokens } from "../core/token.ts";
import { TokenReader, tokenPath } from "./token-reader.ts";

const LOOK_INTERVAL_MS = 100;
/** A file that is missing for this long means no tokens. */
const MISSING_MS = 500;
/** Unknown tokens that wait for one look. */
const WAITING_MAX = 1000;

/**
 * From the first failed look until no token is accepted. With the interval it is less than 2 s,
 * because the file may have changed right after the last good look.
 */
const FAILED_LOOKS_MS = 1400;

/** A file changed this recently may change again within the same tick of its time stamp. */
const FRESH_MS = 2000;

/** The token check that comes with the store. */
export class TokenRegistry implements TokenVerifier {
  readonly #path: string;
  readonly #reader: TokenReader;
  readonly #tokens = new LiveTokens();
  /** The state of the file when it was read; `undefined`: read it at the next look. */
  #stamp: string | undefined;
  /** Since when looks find no file, on the monotonic clock. */
  #missingSince: number | undefined;
  /** When the first look after the last good one failed, on the monotonic clock. */
  #failingSince: number | undefined;
  #lastFault: string | undefined;
  #timer: NodeJS.Timeout | undefined;
  /** The last look: looks are made one after the other. */
  #looking: Promise<void> = Promise.resolve();
  /** Those who wait for the next look to begin and to end. */
  #waiting: (() => void)[] = [];
  #isClosed = false;

  private constructor(filePath: string) {
    this.#path = filePath;
    this.#reader = new TokenReader(filePath);
  }

  /**
   * Reads the tokens of a data directory, which may be empty, and follows them until `close`.
   *
   * @throws PlantStoreError `corruption` or `io_error` if there is a token log that cannot be read.
   */
  static async open(directory: string): Promise<TokenRegistry> {
    const registry = new TokenRegistry(tokenPath(directory));
    registry.#stamp = await registry.#readStamp();
    const tokens = await registry.#reader.read();
    registry.#tokens.replace(tokens?.live(Date.now()) ?? []);
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
    this.#assertReadable();
    return this.#tokens.verify(token, Date.now());
  }

  /** @throws like `verify`. */
  isCurrent(verified: VerifiedToken): boolean {
    this.#assertReadable();
    return this.#tokens.isCurrent(verified, Date.now());
  }

  /**
   * Resolves after the next good look that begins: from then on a token is known that was created
   * before this call. Also resolves when `isReadable` ends. Looks are not made for it. `undefined` if
   * many wait already, or after `close`.
   */
  nextLook(): Promise<void> | undefined {
    if (this.#isClosed || this.#waiting.length >= WAITING_MAX) return undefined;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** The live tokens, for their operator. */
  list(): TokenStatus[] {
    return this.#tokens.list(Date.now());
  }

  /** Looks at the file now, or after the look under way. Never rejects: a failure is a warning. */
  refresh(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#look());
    return this.#looking;
  }

  /** Stops following the file. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#reader.close();
    for (const resolve of this.#waiting.splice(0)) resolve();
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
    const waiting = this.#waiting.splice(0);
    let isGood = false;
    try {
      const stamp = await this.#readStamp();
      const isSame = stamp !== undefined && stamp === this.#stamp;
      const tokens = isSame ? undefined : await this.#reader.read();
      if (isSame || tokens !== undefined) this.#missingSince = undefined;
      else {
        this.#missingSince ??= begun;
        if (begun - this.#missingSince < MISSING_MS) return;
      }
      if (!isSame) this.#tokens.replace(tokens?.live(Date.now()) ?? []);
      this.#stamp = stamp;
      this.#failingSince = undefined;
      this.#lastFault = undefined;
      isGood = true;
    } catch (error) {
      this.#failingSince ??= begun;
      this.#warnOnce(error as Error);
    } finally {
      if (isGood || !this.isReadable || this.#isClosed) for (const resolve of waiting) resolve();
      else this.#waiting.unshift(...waiting);
    }
  }

  #assertReadable(): void {
    if (this.isReadable) return;
    throw new PlantStoreError(
      "tokens_unreadable",
      "Authorization: cannot judge tokens now, because the server cannot read its token file; " +
        "send the request again later",
    );
  }

  /** Identifies a state of the file; `undefined` if it is missing or too fresh to trust. */
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
