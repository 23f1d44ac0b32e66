/**
 * What the rooms tell whoever listens, over named `node:diagnostics_channel`
 * channels: nothing is logged, and a channel nobody subscribes to costs one
 * comparison, so a publisher asks `hasSubscribers` before it makes a message
 * or reads a clock. Names and message shapes are part of the public interface:
 * members may be added, none changes or goes.
 */
import { channel } from "node:diagnostics_channel";

/** On `plant-store:warning`: something the operator should know and the store survives. */
export interface WarningMessage {
  /** For people; one line, may name paths, never a token. */
  readonly message: string;
  readonly cause?: unknown;
  /** The `X-Request-Id` of the answer, where it is about a request. */
  readonly requestId?: string | undefined;
}

/** On `plant-store:request`: a request whose answer was handed over, or that broke off before. */
export interface RequestMessage {
  /** `undefined` where the bytes on the connection never became a request. */
  readonly method: string | undefined;
  /** As sent and as the listener sees it, without the query; `undefined` like `method`. */
  readonly path: string | undefined;
  /** The HTTP status; 0 where the request broke off before it was carried out. */
  readonly status: number;
  /** The number in the Error body; `undefined` after a success. */
  readonly error: number | undefined;
  /**
   * From the call of the listener to the answer; `undefined` for what the
   * listener never saw, or what began before anybody subscribed.
   */
  readonly durationMs: number | undefined;
  /** The length of the request's body; 0 where it was not taken whole. */
  readonly bodyBytes: number;
  /** What a stream of plants gave to its connection; `undefined` for every other answer. */
  readonly sentBytes: number | undefined;
  /**
   * What the answer's `X-Request-Id` says: the client's own where that was safe, else ours.
   * Always 1 to 64 safe characters.
   */
  readonly requestId: string;
  /** The name of the token, once it was found good; never the token. */
  readonly token: string | undefined;
  /** `undefined` for what was refused before it was known. */
  readonly operation: "createPlant" | "listPlants" | "getPlant" | undefined;
  /** Whether the request, or a stream, broke off, whoever ended it. */
  readonly cut: boolean;
}

/** On `plant-store:create`: a new plant that has just become durable; none for a replay. */
export interface CreateMessage {
  /** The path of the log: it tells the stores of one process apart. */
  readonly log: string;
  readonly id: bigint;
  readonly name: string;
  readonly tag: string | undefined;
  /** Where the plant's line begins in the log. */
  readonly offset: number;
  /** The length of the line, its line feed included. */
  readonly bytes: number;
}

/** On `plant-store:batch`: records that one sync has just made durable. */
export interface BatchMessage {
  /** The path of the log. */
  readonly log: string;
  readonly records: number;
  readonly bytes: number;
  /** How long the write that syncs took. */
  readonly syncMs: number;
}

/** On `plant-store:drop`: a server of ours closed a new connection because it has the most it may. */
export interface DropMessage {
  /** How many connections that server has open, at most. */
  readonly connectionsMax: number;
}

const warnings = channel("plant-store:warning");
/** @internal */
export const requests = channel("plant-store:request");
/** @internal */
export const creates = channel("plant-store:create");
/** @internal */
export const batches = channel("plant-store:batch");

/** @internal */
export const drops = channel("plant-store:drop");

/** Publishes on `plant-store:warning`. @internal */
export function publishWarning(message: string, cause?: unknown, requestId?: string): void {
  if (!warnings.hasSubscribers) return;
  warnings.publish({ message, cause, requestId } satisfies WarningMessage);
}
