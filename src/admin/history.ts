/** What happened in each of the last seconds: plants created, and how long the syncs took. */

/** Five minutes: what a person who has been called looks at. */
export const HISTORY_SECONDS = 300;

interface Second {
  /** Since 1970; which of the seconds that share this place it is. */
  at: number;
  creates: number;
  syncMsMax: number;
}

/** The oldest second first; one before the start has no creates, one without a sync no latency. */
export interface HistoryDocument {
  readonly creates: readonly (number | null)[];
  readonly syncMsMax: readonly (number | null)[];
}

export class History {
  /** By time modulo their number, so nothing moves and no timer runs. */
  readonly #seconds = Array.from(
    { length: HISTORY_SECONDS + 1 },
    (): Second => ({ at: -1, creates: 0, syncMsMax: 0 }),
  );
  readonly #startedAt = Math.floor(Date.now() / 1000);

  /** @param time milliseconds since 1970. */
  note(time: number, creates: number, syncMs: number): void {
    const at = Math.floor(time / 1000);
    const second = this.#placeOf(at);
    if (second.at !== at) Object.assign(second, { at, creates: 0, syncMsMax: 0 });
    second.creates += creates;
    second.syncMsMax = Math.max(second.syncMsMax, syncMs);
  }

  /** The seconds that are over at a time; the one that is under way would always look slow. */
  read(time: number): HistoryDocument {
    const now = Math.floor(time / 1000);
    const seconds = Array.from({ length: HISTORY_SECONDS }, (_, index) => {
      const at = now - HISTORY_SECONDS + index;
      const second = this.#placeOf(at);
      if (second.at === at) return second;
      return { creates: at < this.#startedAt ? null : 0, syncMsMax: null };
    });
    const round = (ms: number | null) => ms && Math.round(ms * 100) / 100;
    return {
      creates: seconds.map(({ creates }) => creates),
      syncMsMax: seconds.map(({ syncMsMax }) => round(syncMsMax)),
    };
  }

  #placeOf(at: number): Second {
    return this.#seconds[at % this.#seconds.length] as Second;
  }
}
