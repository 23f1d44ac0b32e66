/**
 * The operation that creates: reads the body within its limits, and responds once the plant is durable.
 *
 * A request that was responded before its body was whole, or whose client has left, creates nothing.
 */
import { setImmediate as turn } from "node:timers/promises";
import { PlantStoreError } from "../core/errors.ts";
import { encodePlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService, TokenVerifier } from "../core/services.ts";
import type { Exchange } from "./exchange.ts";
import { checkBodyHeaders, invalidToken } from "./head.ts";
import { takePieces } from "./node-internals.ts";

/** A request and its response in Node, besides the body (measured). */
const REQUEST_BYTES = 8 * 1024;
/** A body, its text, and its record. */
const COPIES = 3;
/** Parsing a longer body may take 40 ms a MiB. */
const LONG_BYTES = 64 * 1024;
/** No client sends a plant in so many pieces of fewer bytes, and each takes a microsecond. */
const SHORT_PIECES = { max: 1024, bytes: 64 };
/** Of a body whose token is being verified: as much as a packet holds. */
const HELD_BYTES = 64 * 1024;
const NOTHING = Buffer.alloc(0);

export class Creates {
  readonly #plants: PlantService;
  readonly #tokens: TokenVerifier;
  /** The end of the turn of the long body that came last. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(plants: PlantService, tokens: TokenVerifier) {
    this.#plants = plants;
    this.#tokens = tokens;
  }

  /**
   * Responds, also with later failures.
   *
   * @param sendContinue asks the client for the body, if it waits for that.
   * @throws PlantStoreError for the head, in the turn of the call.
   */
  create(exchange: Exchange, token: string, body: Body, sendContinue?: () => void): void {
    checkBodyHeaders(exchange.req);
    const reading = body.read();
    sendContinue?.();
    this.#store(exchange, token, reading).catch(exchange.fail);
  }

  async #store(exchange: Exchange, token: string, reading: Promise<Buffer>): Promise<void> {
    const { socket } = exchange.req;
    const { bytesRead } = socket;
    const body = await reading;
    exchange.bodyBytes = body.length;
    if (body.length > LONG_BYTES) {
      this.#turn = this.#turn.then(() => (exchange.isOver ? undefined : turn()));
      await this.#turn;
    }
    const isLate = socket.bytesRead !== bytesRead;
    if (isLate && !(await this.#tokens.verify(token))) throw invalidToken();
    if (exchange.isResponded || exchange.isOver) return;
    if (body.length === 0) throw new PlantStoreError("invalid_json", "body: it is empty");
    const plant = parseNewPlant(body);
    await exchange.during(this.#plants.create(plant));
    exchange.respond({ status: 200, body: encodePlant(plant) });
  }
}

/** Puts a body together from its pieces, within its limits. */
export class Body {
  readonly #exchange: Exchange;
  readonly #bytesMax: number;
  readonly #declared: number;
  /** Its first `#size` bytes are the body so far. */
  #bytes: Buffer = NOTHING;
  #size = 0;
  #shortPieces = 0;
  /** Why it is refused. */
  #error: unknown;
  #reject: ((error: unknown) => void) | undefined;

  constructor(exchange: Exchange, bytesMax: number) {
    this.#exchange = exchange;
    this.#bytesMax = bytesMax;
    this.#declared = Number(exchange.req.headers["content-length"] ?? 0);
    if (this.#declared > bytesMax) this.#error = tooLarge(bytesMax);
  }

  /** Waits, and meanwhile keeps what arrives, in one piece; stops reading when that is enough. */
  holdUntil<T>(verdict: Promise<T>): Promise<T> {
    const release = takePieces(this.#exchange.req, (piece) => {
      this.#take(piece);
      return this.#size < HELD_BYTES;
    });
    return verdict.finally(release);
  }

  /**
   * Resolves with the body; never settles if the client leaves before its end.
   *
   * @throws PlantStoreError `body_too_large`, `overloaded`, or `internal` if other code has read of it, before the
   * body is read; rejects with them later.
   */
  read(): Promise<Buffer> {
    const { req } = this.#exchange;
    if (this.#error !== undefined) throw this.#error;
    const isDecoded = typeof req.readableEncoding === "string";
    if (req.readableEnded || req.readableDidRead || isDecoded) throw touchedBody();
    this.#exchange.hold(REQUEST_BYTES + COPIES * Math.max(this.#declared, this.#bytes.length));
    return new Promise<Buffer>((resolve, reject) => {
      this.#reject = reject;
      req.on("data", (piece: Buffer) => this.#take(piece));
      req.on("end", () => {
        const isWhole = this.#bytes.length === this.#size;
        resolve(isWhole ? this.#bytes : this.#bytes.subarray(0, this.#size));
      });
      req.resume(); // other code may have paused it
    });
  }

  #take(piece: Buffer): void {
    if (this.#error !== undefined) return;
    try {
      this.#add(piece);
    } catch (error) {
      this.#error = error;
      this.#bytes = NOTHING;
      this.#reject?.(error);
    }
  }

  #add(piece: Buffer): void {
    if (!Buffer.isBuffer(piece)) throw touchedBody();
    const end = this.#size + piece.length;
    if (piece.length < SHORT_PIECES.bytes) this.#shortPieces++;
    const isTooLong = end > this.#bytesMax || this.#shortPieces > SHORT_PIECES.max;
    if (isTooLong) throw tooLarge(this.#bytesMax);
    const isFirst = this.#size === 0; // and nearly always the only one
    if (isFirst) this.#bytes = piece;
    else if (end > this.#bytes.length) this.#grow(end);
    if (!isFirst) piece.copy(this.#bytes, this.#size);
    this.#size = end;
  }

  /** Kept as they come, pieces of one byte would take some 250 bytes each. */
  #grow(end: number): void {
    const isAccepted = this.#reject !== undefined; // else what is declared is nobody's promise
    const room = isAccepted && end <= this.#declared ? this.#declared : 2 * end;
    if (isAccepted && end > this.#declared) this.#exchange.hold(COPIES * room);
    const longer = Buffer.allocUnsafe(room);
    this.#bytes.copy(longer, 0, 0, this.#size);
    this.#bytes = longer;
  }
}

function tooLarge(bytesMax: number): PlantStoreError {
  const message = `body: expected at most ${bytesMax} bytes, got more`;
  return new PlantStoreError("body_too_large", message);
}

/** The client sees it: the developer who mounted the listener wrongly sends the first request. */
function touchedBody(): PlantStoreError {
  const what = "body: expected unread bytes, got a body that other code has read or decodes";
  const how = "mount the plant store's listener before any body parser and setEncoding()";
  return new PlantStoreError("internal", `${what}; ${how}`);
}
