/**
 * What is told of a line that is not the first record of its id: by a start, by
 * `verify` and by `repair`. A file of its own, because it is all of store/log-scan
 * that the library shows.
 */
import type { LinePosition } from "../log/format.ts";

export type { LinePosition };

/** A line that is not the first record of its id. */
export interface LineFault {
  /**
   * `repeat`: the same plant again. `conflict`: its id with other content.
   * `mendable`: unreadable, and put aside by the next start (told by `verify`).
   */
  readonly kind: "unreadable" | "mendable" | "repeat" | "conflict";
  readonly position: LinePosition;
  /** The length of the line, with its line feed. */
  readonly bytes: number;
  /** What was expected and what came. */
  readonly reason: string;
}
