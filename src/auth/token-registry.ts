/**
 * The tokens of a running server: judged in memory, followed on disk.
 *
 * Invariants. A change of the token log is in force within 2 s, however it was made (appended,
 * edited, replaced by a rename), or no token is accepted (core/token): the registry looks at
 * the file ten times a second, because file system events do not report all of those. A look fails if
 * the file cannot be read, also for want of a descriptor, or if a whole line of it is no event; one that
 * hangs does not hold up the process. A file that is missing for half a second means no tokens; until then
 * an editor may be saving it. What an editor wrote is synced once it is at rest, and no look waits for that.
 */
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { LiveTokens, LOOK_INTERVAL_MS, VERDICT_MS } from "../core/token.ts";
import { disk, ioError } from "../log/disk.ts";
import { requestedReads } from "../log/file.ts";
import { syncTokens, TokenReader, tokenPath } from "./token-log.ts";

/** A file that is missing for this long means no tokens. */
const MISSING_MS = 500;

/** A file changed this recently may change again within the same tick of its time stamp. */
const AT_REST_MS = 2000;

/** The token check that comes with the store. */
export class TokenRegistry extends LiveTokens {
  readonly #path: string;
  readonly #reader: TokenReader;
  /** The state of the file when it was read; `undefined`: read it at the next look. */
  #stamp: string | undefined;
  /** Since when looks find no file, on the monotonic clock. */
  #missingSince: number | undefined;
  #lastFault: string | undefined;
  /** The last sync of the file: one at a time. */
  #syncing: Promise<void> = Promise.resolve();

  private constructor(filePath: string) {
    super({
      clock,
      intervalMs: LOOK_INTERVAL_MS.folder,
      waitMs: VERDICT_MS,
      fault: "the server has not read its token file for 2 s",
    });
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
    const begun = registry.now();
    registry.#stamp = await registry.#readStamp();
    const tokens = await registry.#reader.read();
    registry.#syncMeanwhile();
    await registry.#syncing; // a start serves what is on disk
    registry.note(begun, tokens?.tokens ?? []);
    registry.follow();
    return registry;
  }

  /** @internal */
  protected override async look(): Promise<void> {
    const begun = this.now(); // a dying disk may report a failed read only after a minute
    try {
      const stamp = await this.#readStamp();
      const isSame = stamp !== undefined && stamp === this.#stamp;
      const tokens = isSame ? undefined : await this.#reader.read();
      if (isSame || tokens !== undefined) this.#missingSince = undefined;
      else {
        this.#missingSince ??= begun.steadyMs;
        if (begun.steadyMs - this.#missingSince < MISSING_MS) return;
      }
      if (stamp !== undefined && !isSame) this.#syncMeanwhile();
      this.#stamp = stamp;
      this.#lastFault = undefined;
      this.note(begun, isSame ? undefined : (tokens?.tokens ?? []));
    } catch (error) {
      this.#warnOnce(error as Error);
    }
  }

  #syncMeanwhile(): void {
    this.#syncing = this.#syncing.then(() =>
      requestedReads
        .pass(() => syncTokens(this.#path))
        .catch((error) => publishWarning(error.message)),
    );
  }

  /** Identifies a state of the file; `undefined` if it is missing, or not at rest. */
  async #readStamp(): Promise<string | undefined> {
    try {
      const state = await disk.findLater(this.#path);
      if (state === undefined) return undefined;
      if (!state.isFile()) throw new Error("expected a regular file");
      if (clock.wallMs() - Number(state.ctimeMs) < AT_REST_MS) return undefined;
      return [state.dev, state.ino, state.size, state.mtimeNs, state.ctimeNs].join(":");
    } catch (cause) {
      throw ioError(`Cannot read "${this.#path}"`, cause);
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
