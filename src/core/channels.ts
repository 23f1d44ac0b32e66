/**
 * What the rooms tell whoever listens, over named `node:diagnostics_channel`
 * channels: nothing is logged, and a channel nobody subscribes to costs one
 * comparison. Names and message shapes are part of the public interface.
 */
import { channel } from "node:diagnostics_channel";

/** Something the operator should know and the store survives. */
export interface WarningMessage {
  /** For people; one line, may name paths, never a token. */
  readonly message: string;
  readonly cause?: unknown;
}

const warnings = channel("plant-store:warning");

/** Publishes on `plant-store:warning`. */
export function publishWarning(message: string, cause?: unknown): void {
  if (warnings.hasSubscribers) warnings.publish({ message, cause } satisfies WarningMessage);
}
