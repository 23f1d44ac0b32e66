/**
 * What the program reports over channels of `node:diagnostics_channel`, a public interface: members are added, none
 * changes. Without a subscriber no message is made and no clock is read. A slow subscriber delays all requests.
 */
import diagnostics, { channel } from "node:diagnostics_channel";

/** On `plant-store:warning`: something that the operator should know, and that the store survives. */
export interface WarningMessage {
  /** One line for people. May name paths, never a token. */
  readonly message: string;
  readonly cause?: unknown;
  /** The `X-Request-Id` of the response, if the warning is about a request. */
  readonly requestId?: string | undefined;
}

/** On `plant-store:request`: a request that got a response, or broke off before. */
export interface RequestMessage {
  /** `undefined` if the bytes on the connection never became a request. */
  readonly method: string | undefined;
  /** As the listener sees it, without the query; `undefined` when `method` is. */
  readonly path: string | undefined;
  /** The address of the peer, or the client that a trusted proxy names; `undefined` if it is unknown. */
  readonly client: string | undefined;
  /** The HTTP status; 0 if the request broke off before it was carried out. */
  readonly status: number;
  /** The number in the Error body; `undefined` after a success. */
  readonly error: number | undefined;
  /** From the head of the request to its response; `undefined` if it began before the first subscription. */
  readonly durationMs: number | undefined;
  /** The length of the request's body; 0 if it was not read whole. */
  readonly bodyBytes: number;
  /** The response's `X-Request-Id`, 1 to 64 safe characters: the client's own if that is safe. */
  readonly requestId: string;
  /** The name of an accepted token; never the token. */
  readonly token: string | undefined;
  /** `undefined` for a request that was refused before its operation was known. */
  readonly operation: "createPlant" | "listPlants" | "getPlant" | undefined;
  /** Whether either side broke off the request, or its stream. */
  readonly cut: boolean;
}

/** On `plant-store:batch`: records that one sync, or one statement, has just made durable; none for replays. */
export interface BatchMessage {
  /** The path of the log, or the host of the database. */
  readonly log: string;
  readonly records: number;
  /** The length of their lines in a log, with their line feeds; over a database about what they take in memory. */
  readonly bytes: number;
  /** How long the synced write, or the statement, took. */
  readonly syncMs: number;
}

/** The channels, and what is published on each. */
export interface ChannelMessages {
  "plant-store:request": RequestMessage;
  "plant-store:batch": BatchMessage;
  "plant-store:warning": WarningMessage;
}

/** Calls the function with each message from now on. Returns a function that ends the subscription. */
export function subscribe<Name extends keyof ChannelMessages>(
  name: Name,
  onMessage: (message: ChannelMessages[Name]) => void,
): () => void {
  const listener = (message: unknown) => onMessage(message as ChannelMessages[Name]);
  diagnostics.subscribe(name, listener);
  return () => void diagnostics.unsubscribe(name, listener);
}

/** @internal */
export const [requests, batches] = [channel("plant-store:request"), channel("plant-store:batch")];
const warnings = channel("plant-store:warning");

/** Publishes on `plant-store:warning`; without a subscriber it is a warning of the process. @internal */
export function publishWarning(message: string, cause?: unknown, requestId?: string): void {
  const which = requestId === undefined ? message : `${message} (${requestId})`;
  const detail = String((cause as Error | undefined)?.stack ?? cause ?? "");
  if (warnings.hasSubscribers) warnings.publish({ message, cause, requestId });
  else process.emitWarning(which, { type: "PlantStoreWarning", detail });
}
