/**
 * The body of a request: its bytes, within the limits. It borrows from the budget of its listener from
 * its first byte until its request is answered. Knows nothing of JSON.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isUint8Array } from "node:util/types";
import { PlantStoreError } from "../core/errors.ts";
import { type Budget, overloaded } from "./budget.ts";

/** @throws PlantStoreError `body_too_large` for a declared length, before the body is read. */
export function requireLength(headers: IncomingHttpHeaders, bytesMax: number): void {
  if (Number(headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
}

/**
 * @throws PlantStoreError `internal` if other code, a body parser perhaps, has read some of the body
 * or has it decoded (`setEncoding`), which loses digits of large ids, or bytes that are not UTF-8.
 */
export function requireUnread(req: IncomingMessage): void {
  const isDecoded = typeof req.readableEncoding === "string";
  if (req.readableEnded || req.readableDidRead || isDecoded) throw touchedBody();
}

/**
 * Receives once how a body ended: its bytes; a failure (`body_too_large`, `overloaded`), as soon as it
 * is known; or neither, if the client went away before the end.
 */
export type BodyHandler = (body: Buffer | undefined, failure?: PlantStoreError) => void;

/** Puts a body together from chunks, within the limits. */
export class BodyCollector {
  readonly #bytesMax: number;
  readonly #budget: Budget;
  readonly #onEnd: BodyHandler;
  /** Its first `#size` bytes are the body so far. */
  #body: Buffer = NOTHING;
  #size = 0;
  #isDone = false;

  /** @param budget what the body borrows from; given back unless `onEnd` receives the bytes. */
  constructor(bytesMax: number, budget: Budget, onEnd: BodyHandler) {
    this.#bytesMax = bytesMax;
    this.#budget = budget;
    this.#onEnd = onEnd;
  }

  /** Whether nothing more is wanted. */
  get isDone(): boolean {
    return this.#isDone;
  }

  /** @param chunk bytes; anything else ends the body with the failure `internal`. */
  add(chunk: unknown): void {
    if (this.#isDone) return;
    const bytes = Buffer.isBuffer(chunk) ? chunk : copyBytes(chunk);
    if (bytes === undefined) this.#stop(touchedBody());
    else if (this.#size + bytes.length > this.#bytesMax) this.#stop(tooLarge(this.#bytesMax));
    else if (!this.#budget.take(bytes.length)) this.#stop(overloaded());
    else {
      this.#body = join(this.#body, this.#size, bytes);
      this.#size += bytes.length;
    }
  }

  end(): void {
    if (this.#isDone) return;
    this.#isDone = true;
    const body = this.#takeBody();
    this.#onEnd(body.length === this.#size ? body : body.subarray(0, this.#size));
  }

  /** The client went away. */
  leave(): void {
    if (!this.#isDone) this.#stop();
  }

  /** Lets go of it: a request lives on until it is answered, and longer. */
  #takeBody(): Buffer {
    const body = this.#body;
    this.#body = NOTHING;
    return body;
  }

  #stop(failure?: PlantStoreError): void {
    this.#isDone = true;
    this.#takeBody();
    this.#budget.giveBack(this.#size);
    this.#onEnd(undefined, failure);
  }
}

const NOTHING = Buffer.alloc(0);

/** Deno hands over a `Uint8Array`, which looks like a Buffer and writes its text as numbers. */
function copyBytes(chunk: unknown): Buffer | undefined {
  return isUint8Array(chunk) ? Buffer.from(chunk) : undefined;
}

/**
 * Appends a chunk to the first bytes of a body, in at most twice the room. Kept as they come, chunks
 * of one byte would cost some 250 bytes each.
 */
function join(body: Buffer, size: number, chunk: Buffer): Buffer {
  if (size === 0) return chunk; // nearly every body comes whole
  const end = size + chunk.length;
  const target = end <= body.length ? body : Buffer.allocUnsafe(2 * end);
  if (target !== body) body.copy(target, 0, 0, size);
  chunk.copy(target, size);
  return target;
}

/** Feeds a collector from the stream that a request is. */
export function collectStream(req: IncomingMessage, collector: BodyCollector): void {
  if (req.destroyed) {
    collector.leave();
    return;
  }
  // None of them is taken off again: a collector that is done does nothing.
  req
    .on("data", (chunk: unknown) => collector.add(chunk))
    .on("end", () => collector.end())
    .on("close", () => collector.leave())
    .on("error", ignoreError);
  // "data" alone does not undo somebody's pause(); a stand-in of node-mocks-http cannot pause.
  req.resume?.();
}

/** "close" follows. */
function ignoreError(): void {}

/** Sent to the client too: the first request after a wrong mount comes from the developer. */
function touchedBody(): PlantStoreError {
  return new PlantStoreError(
    "internal",
    "body: expected bytes that nobody has read, got a body that other code of this server " +
      "has read or decodes; mount the plant store's listener before any body parser and setEncoding()",
  );
}

function tooLarge(bytesMax: number): PlantStoreError {
  return new PlantStoreError(
    "body_too_large",
    `body: expected at most ${bytesMax} bytes, got more`,
  );
}
