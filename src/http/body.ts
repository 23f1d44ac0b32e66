/**
 * The body of a request: its bytes, within the limits, from the stream of the request or, in our own
 * server, from the HTTP parser itself. Its room in memory is borrowed as it grows. Knows nothing about
 * JSON.
 */
import { IncomingMessage } from "node:http";
import { setImmediate } from "node:timers/promises";
import { isUint8Array } from "node:util/types";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import { overloaded } from "./budget.ts";
import { NOTED, type Noted } from "./request-message.ts";

function tooLarge(bytesMax: number): PlantStoreError {
  const message = `body: expected at most ${bytesMax} bytes, got more`;
  return new PlantStoreError("body_too_large", message);
}

/**
 * Judges a body before it is read.
 *
 * @returns its declared length in bytes; 0 if it has none.
 * @throws PlantStoreError `body_too_large` for its declared length; `internal` if other code, a body
 * parser perhaps, has read some of it or has it decoded (`setEncoding`), which loses bytes that are
 * not UTF-8.
 */
export function requireBody(req: IncomingMessage, bytesMax: number): number {
  const declared = Number(req.headers["content-length"] ?? 0);
  if (declared > bytesMax) throw tooLarge(bytesMax);
  const isDecoded = typeof req.readableEncoding === "string";
  if (req.readableEnded || req.readableDidRead || isDecoded) throw touchedBody();
  return declared;
}

/** The client sees it too: the developer who mounted the listener wrongly sends the first request. */
function touchedBody(): PlantStoreError {
  return new PlantStoreError(
    "internal",
    "body: expected unread bytes, got a body that other code of this server has read or decodes; " +
      "mount the plant store's listener before any body parser and setEncoding()",
  );
}

/**
 * Receives once how a body ended: its bytes; a failure as soon as it is known (`body_too_large`,
 * `overloaded`, `internal`); or neither, if the client left before the end.
 */
type BodyHandler = (body: Buffer | undefined, failure?: PlantStoreError) => void;

const NOTHING = Buffer.alloc(0);

/** Puts a body together from chunks, within the limits. */
export class BodyCollector {
  /** Whether the handler was called: nothing more is wanted. */
  isDone = false;
  /** Whose body it is: clients take turns. */
  client = "";
  readonly #bytesMax: number;
  readonly #declared: number;
  readonly #lend: (room: number) => boolean;
  readonly #onEnd: BodyHandler;
  /** Its first `#size` bytes are the body so far. */
  #body: Buffer = NOTHING;
  #size = 0;

  /**
   * @param declared how many bytes are announced; 0 if that is not known.
   * @param lend lends the room that the body takes from now on, in bytes; false if there is none.
   */
  constructor(
    bytesMax: number,
    declared: number,
    lend: (room: number) => boolean,
    onEnd: BodyHandler,
  ) {
    this.#bytesMax = bytesMax;
    this.#declared = declared;
    this.#lend = lend;
    this.#onEnd = onEnd;
  }

  /** @param chunk bytes; anything else ends the body with the failure `internal`. */
  add(chunk: unknown): void {
    if (this.isDone) return;
    if (!isUint8Array(chunk)) this.#end(undefined, touchedBody());
    else if (this.#size + chunk.length > this.#bytesMax) {
      this.#end(undefined, tooLarge(this.#bytesMax));
      // Deno's is no Buffer, and as text it would be a list of numbers.
    } else if (!this.#append(Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk))) {
      this.#end(undefined, overloaded());
    }
  }

  /**
   * Most bodies arrive whole. Others are copied into room for all that is announced, or for twice as much
   * as has arrived: kept as they come, chunks of one byte would take some 250 bytes each.
   *
   * @returns false if no room is lent.
   */
  #append(chunk: Buffer): boolean {
    const start = this.#size;
    const end = start + chunk.length;
    if (start === 0 || end > this.#body.length) {
      // Lent from the first piece on: a refusal comes before the body is sent.
      const room = end <= this.#declared ? this.#declared : start === 0 ? end : 2 * end;
      if (!this.#lend(room)) return false;
      const body = start === 0 ? chunk : Buffer.allocUnsafe(room);
      this.#body.copy(body, 0, 0, start);
      this.#body = body;
    }
    if (start > 0) chunk.copy(this.#body, start);
    this.#size = end;
    return true;
  }

  end(): void {
    const body = this.#body;
    if (!this.isDone) this.#end(body.length === this.#size ? body : body.subarray(0, this.#size));
  }

  /** The client has left. */
  leave(): void {
    if (!this.isDone) this.#end();
  }

  #end(body?: Buffer, failure?: PlantStoreError): void {
    this.isDone = true;
    this.#body = NOTHING; // a request lives on until it is answered, and longer
    this.#onEnd(body, failure);
  }
}

export function collectBody(req: IncomingMessage, collector: BodyCollector): void {
  if (req instanceof DirectRequest && req.collect(collector)) return;
  if (req.destroyed) {
    collector.leave();
    return;
  }
  // The listeners stay: a collector that is done ignores them.
  req
    .on("data", (chunk: unknown) => collector.add(chunk))
    .on("end", () => collector.end())
    .on("close", () => collector.leave())
    .on("error", () => {}); // "close" follows
  // "data" alone does not undo a pause() of other code; a stand-in of node-mocks-http cannot pause.
  req.resume?.();
}

/** Each takes a microsecond or two, and a packet may hold 11,000 chunks of one byte. */
const PIECES_MAX = 1000;
/** Bodies in many small pieces are read one after the other, a packet in a turn of the event loop. */
const piecemeal = new Gate(1);

/**
 * A request whose body the HTTP parser hands to a collector, without a stream in between, which makes a
 * tenth more creates. Node documents neither that its parser calls `push` nor what it asks a request
 * afterwards, so only tested versions of it use this class.
 *
 * It is a stream like any other until a collector is attached, and again when the collector wants no
 * more, so refusals read or discard a rest as usual. In between nothing is buffered.
 */
export class DirectRequest extends IncomingMessage {
  /** Receives the body, or has received it; so the head was judged. */
  collector: BodyCollector | undefined;
  #pieces = 0;
  /** Of http/request-message. */
  [NOTED]: Noted | undefined = undefined;

  /** Feeds a collector; returns false, and does nothing, if some of the body has arrived before. */
  collect(collector: BodyCollector): boolean {
    if (this.complete || this.readableLength > 0 || this.destroyed) return false;
    this.collector = collector;
    return true;
  }

  /** All of the body went to a collector. */
  get #isCollected(): boolean {
    return this.complete && this.collector !== undefined;
  }

  /** Called by Node's parser with each piece of a body, and with null after the last. */
  override push(chunk: Buffer | null): boolean {
    const { collector } = this;
    if (collector === undefined) return super.push(chunk);
    if (chunk === null) collector.end();
    else {
      collector.add(chunk);
      if (collector.isDone) this.collector = undefined;
      if (++this.#pieces === PIECES_MAX) void this.#rest(collector.client);
    }
    return true;
  }

  /** Has the rest of the body wait for its turn. */
  async #rest(client: string): Promise<void> {
    this.socket.pause();
    await piecemeal.pass(setImmediate, client);
    this.#pieces = 0;
    this.socket.resume();
  }

  /** Called by Node on a request that was answered, to discard a body that nobody read. */
  override resume(): this {
    return this.#isCollected ? this : super.resume();
  }

  /** Node keeps a request until this is true. */
  // @ts-expect-error The types call the accessor a property.
  override get readableEnded(): boolean {
    // @ts-expect-error The same.
    return this.#isCollected || super.readableEnded;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.collector?.leave();
    super._destroy(error, done);
  }
}

/** The newest major version of Node that the tests run on. */
const TESTED_NODE_MAX = 26;

/** Whether this runtime is known to hand bodies to `DirectRequest`. */
export function isDirectSafe({ node, deno, bun } = process.versions): boolean {
  return deno === undefined && bun === undefined && Number.parseInt(node, 10) <= TESTED_NODE_MAX;
}
