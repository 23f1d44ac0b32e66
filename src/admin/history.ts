/** What happened in each of the last seconds: plants created, and how long the syncs took. */

/** Five minutes: what a person who has been called looks at. */
export const HISTORY_SECONDS = 300;

interface Second {
  /** Since 1970; which of the seconds that share this place it is. */
  at: number;
  creates: number;
  syncs: number;
  syncMsSum: number;
  syncMsMax: number;
}

/** The oldest second first; a second without a sync has no latency. */
export interface HistoryDocument {
  readonly creates: readonly number[];
  readonly syncMsMean: readonly (number | null)[];
  readonly syncMsMax: readonly (number | null)[];
}

export class History {
  /** By time modulo their number, so nothing moves and no timer runs. */
  readonly #seconds = Array.from(
    { length: HISTORY_SECONDS + 1 },
    (): Second => ({ at: -1, creates: 0, syncs: 0, syncMsSum: 0, syncMsMax: 0 }),
  );

  /** @param time milliseconds since 1970. */
  note(time: number, creates: number, syncMs: number): void {
    const at = Math.floor(time / 1000);
    const second = this.#placeOf(at);
    if (second.at !== at) {
      Object.assign(second, { at, creates: 0, syncs: 0, syncMsSum: 0, syncMsMax: 0 });
    }
    second.creates += creates;
    second.syncs++;
    second.syncMsSum += syncMs;
    second.syncMsMax = Math.max(second.syncMsMax, syncMs);
  }

  /** The seconds that are over at a time; the one that is under way would always look slow. */
  read(time: number): HistoryDocument {
    const now = Math.floor(time / 1000);
    const seconds = Array.from({ length: HISTORY_SECONDS }, (_, index) => {
      const at = now - HISTORY_SECONDS + index;
      const second = this.#placeOf(at);
      return second.at === at ? second : undefined;
    });
    const round = (ms: number) => Math.round(ms * 100) / 100;
    return {
      creates: seconds.map((second) => second?.creates ?? 0),
      syncMsMean: seconds.map((second) => (second ? round(second.syncMsSum / second.syncs) : null)),
      syncMsMax: seconds.map((second) => (second ? round(second.syncMsMax) : null)),
    };
  }

  #placeOf(at: number): Second {
    return this.#seconds[at % this.#seconds.length] as Second;
  }
}
