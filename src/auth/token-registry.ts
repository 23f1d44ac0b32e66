/**
 * The tokens of a running server: checked in memory, polled on disk.
 *
 * Invariants. A change of the token file is in force within 2 s, however it was made, or no token is accepted
 * (core/live-tokens): the registry reads the whole file twice a second, because time stamps do not show every
 * change. A poll fails if the file cannot be read or is damaged; one that hangs does not hold up the process.
 * A missing file means no tokens.
 */
import { clock } from "../clock.ts";
import { publishWarning } from "../core/channels.ts";
import { LiveTokens, startAge } from "../core/live-tokens.ts";
import { allowMissing, disk } from "../log/disk.ts";
import { LogFile, withUnsynced } from "../log/file.ts";
import { parseTokenFile, tokensPathOf } from "./token-file.ts";

/** The token check that comes with the store. */
export class TokenRegistry extends LiveTokens {
  readonly #path: string;
  /** The file as the last good poll found it. */
  #bytes: Buffer | undefined;
  #lastError: string | undefined;

  private constructor(filePath: string) {
    super({ clock, reason: "the server has not read its token file for 2 s" });
    this.#path = filePath;
  }

  /**
   * Reads the tokens of a data directory, which may be empty, and follows them until `close`. What it reads
   * first is made durable: the folder may be a copy that no program has synced.
   *
   * @throws PlantStoreError `corruption` or `io_error` if there is a token file that cannot be read; `unsynced`
   * if the disk does not sync it.
   */
  static async open(directory: string): Promise<TokenRegistry> {
    const registry = new TokenRegistry(tokensPathOf(directory));
    await registry.#read();
    const file = await LogFile.openForReading(registry.#path);
    const sync = async () => file?.sync();
    await withUnsynced(`Cannot sync "${registry.#path}"`, sync).finally(() => file?.close());
    registry.follow();
    return registry;
  }

  /** @internal */
  protected override async poll(): Promise<void> {
    try {
      await this.#read();
      this.#lastError = undefined;
    } catch (error) {
      const { message } = error as Error;
      if (message === this.#lastError) return;
      this.#lastError = message;
      const then = "after 2 s requests with a token get 503, until it can be read again";
      publishWarning(`Cannot follow the tokens of "${this.#path}"; ${then}`, error);
    }
  }

  async #read(): Promise<void> {
    const age = startAge(clock); // a dying disk may report a failed read only after a minute
    const found = await disk.readFile(this.#path).catch(allowMissing(this.#path));
    const bytes = found ?? Buffer.alloc(0);
    const isSame = this.#bytes?.equals(bytes) === true;
    this.accept(age, isSame ? undefined : parseTokenFile(this.#path, bytes));
    this.#bytes = bytes;
  }
}
