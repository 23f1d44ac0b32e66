/**
 * The body of a request: its bytes, within the limits.
 *
 * A body counts against the bound of its listener from its first byte until
 * its request is answered. Knows nothing of JSON.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { isUint8Array } from "node:util/types";
import { PlantStoreError } from "../core/errors.ts";

/**
 * Refuses a declared length before the body is read, or even sent.
 *
 * @throws PlantStoreError `body_too_large`.
 */
export function requireLength(headers: IncomingHttpHeaders, bytesMax: number): void {
  if (Number(headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
}

/**
 * @throws PlantStoreError `internal` if other code of the program, a body parser
 * perhaps, has read some of the body or has it decoded (`setEncoding`): what such
 * code makes of it has lost the digits of large ids, or bytes that are not UTF-8.
 */
export function requireUnread(req: IncomingMessage): void {
  const isDecoded = typeof req.readableEncoding === "string";
  if (req.readableEnded || req.readableDidRead || isDecoded) throw touchedBody();
}

/** What Node and this server keep of a request and its response, without headers (measured). */
const REQUEST_BYTES = 6 * 1024;
/** Of one header, besides its characters. */
const HEADER_BYTES = 128;

/** About how much memory a request holds until it is answered, besides its body. */
export function heldBytes({ rawHeaders = [], url = "" }: IncomingMessage): number {
  let characters = url.length;
  for (const text of rawHeaders) characters += text.length;
  return REQUEST_BYTES + (HEADER_BYTES / 2) * rawHeaders.length + characters;
}

/** What a request holds on average that counts as one; a head of 16 KiB counts as four. */
const WEIGHT_BYTES = 8 * 1024;

/** How many requests one counts for while it is under way: one, unless its head is long. */
export function weightOf(req: IncomingMessage): number {
  return Math.max(1, Math.round(heldBytes(req) / WEIGHT_BYTES));
}

/** Requests that are under way in one listener, and the bytes of their bodies. */
export class Pending {
  readonly #bytesMax: number;
  readonly #requestsMax: number;
  #bytes = 0;
  #requests = 0;
  #entered = 0;

  constructor(bytesMax: number, requestsMax: number) {
    this.#bytesMax = bytesMax;
    this.#requestsMax = requestsMax;
  }

  /** How many requests have entered so far. */
  get entered(): number {
    return this.#entered;
  }

  /**
   * @param weight as how many requests it counts, see `weightOf`.
   * @throws PlantStoreError `overloaded` when as many are under way as may be.
   */
  enter(weight: number): void {
    if (this.#requests >= this.#requestsMax) throw overloaded();
    this.#requests += weight;
    this.#entered++;
  }

  /** @param bytes what it held of the bound. */
  leave(weight: number, bytes = 0): void {
    this.#requests -= weight;
    this.giveBack(bytes);
  }

  /**
   * False, and nothing taken, when the bound is reached; but who holds all there is, its
   * `ownBytes`, may have more: what is longer than the bound would never find room.
   */
  take(bytes: number, ownBytes?: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax && this.#bytes !== ownBytes) return false;
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/**
 * Told once how a body ended: its bytes; a failure (`body_too_large`,
 * `overloaded`), as soon as it is known; or neither, when the client went away
 * before the end and nobody is left to answer.
 */
export type BodyHandler = (body: Buffer | undefined, failure?: PlantStoreError) => void;

/** Puts a body together from chunks, within the limits. */
export class BodyCollector {
  readonly #bytesMax: number;
  readonly #pending: Pending;
  readonly #onEnd: BodyHandler;
  /** Its first `#size` bytes are the body so far. */
  #body: Buffer = NOTHING;
  #size = 0;
  #isDone = false;

  /** @param pending what the body counts against; given back unless `onEnd` is told its bytes. */
  constructor(bytesMax: number, pending: Pending, onEnd: BodyHandler) {
    this.#bytesMax = bytesMax;
    this.#pending = pending;
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
    else if (!this.#pending.take(bytes.length)) this.#stop(overloaded());
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

  /** It is nobody's to keep: a request lives on until it is answered, and longer. */
  #takeBody(): Buffer {
    const body = this.#body;
    this.#body = NOTHING;
    return body;
  }

  #stop(failure?: PlantStoreError): void {
    this.#isDone = true;
    this.#takeBody();
    this.#pending.giveBack(this.#size);
    this.#onEnd(undefined, failure);
  }
}

const NOTHING = Buffer.alloc(0);

/** Deno hands over a `Uint8Array`, which looks like a Buffer and writes its text as numbers. */
function copyBytes(chunk: unknown): Buffer | undefined {
  return isUint8Array(chunk) ? Buffer.from(chunk) : undefined;
}

/**
 * The first bytes of a body and the chunk behind them, in at most twice the
 * room. Kept as they come, chunks of one byte would cost some 250 each.
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

/** More is under way than may be. */
export function overloaded(): PlantStoreError {
  return new PlantStoreError(
    "overloaded",
    "Cannot take the request now: too many are under way; send it again later",
  );
}
