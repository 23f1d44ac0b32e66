/** A client that reads streams of all plants, one after the other, and judges every line. */
import type { Target } from "./load.ts";

/** Refusals that other events of a run explain: a revoked token, a full budget, a stop. */
const EXPECTED_STATUSES = [401, 503];
const FAULTS_KEPT = 10;
const REST_MS = 500;

export class StreamCheck {
  /** Streams that were read to their end. */
  whole = 0;
  lines = 0;
  readonly faults: string[] = [];
  readonly #target: Target;
  readonly #stopping = new AbortController();
  readonly #ended: Promise<void>;

  /** @param target read anew for each stream: its port and its token change. */
  constructor(target: Target) {
    this.#target = target;
    this.#ended = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        await this.#readOne(signal);
      } catch {
        // the server was killed, or the token revoked: the stream is cut
      }
      await new Promise((resolve) => setTimeout(resolve, REST_MS));
    }
  }

  async #readOne(signal: AbortSignal): Promise<void> {
    const { port, token, book } = this.#target;
    const { acknowledged } = book;
    const headers = { Authorization: `Bearer ${token}`, Accept: "application/x-ndjson" };
    const response = await fetch(`http://127.0.0.1:${port}/plants`, { headers, signal });
    if (response.status !== 200) {
      await response.arrayBuffer();
      if (!EXPECTED_STATUSES.includes(response.status)) this.#note(`status ${response.status}`);
      return;
    }
    let lines = 0;
    let carried = "";
    for await (const text of (response.body as ReadableStream).pipeThrough(
      new TextDecoderStream(),
    )) {
      const pieces = (carried + text).split("\n");
      carried = pieces.pop() ?? "";
      lines += pieces.length;
      for (const line of pieces) this.#judge(line);
      this.lines += pieces.length;
    }
    this.whole++;
    if (carried !== "") this.#note(`ends with ${carried.slice(0, 100)}`);
    if (lines < acknowledged) this.#note(`${lines} plants of ${acknowledged}`);
  }

  #judge(line: string): void {
    const { book } = this.#target;
    const plant = book.numberOf(line);
    if (plant === undefined || book.line(plant) !== line) this.#note(line.slice(0, 100));
  }

  #note(what: string): void {
    if (this.faults.length < FAULTS_KEPT) this.faults.push(`stream: ${what}`);
  }
}
