/** What the program tells its operator: a warning, a step of its life, why it ends. */

/** From the gravest on. */
export const LEVELS = ["error", "warn", "info"] as const;

export type Level = (typeof LEVELS)[number];

export interface Notice {
  readonly level: Level;
  /** What programs look at: a word of [a-z-]. */
  readonly event: string;
  /** For people; one line, never a token. */
  readonly message: string;
  /** More for programs; absent ones are `null`. */
  readonly fields?: Readonly<Record<string, string | number | undefined>>;
}
