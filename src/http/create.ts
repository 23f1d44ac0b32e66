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
const ignore = () => {};

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
   * @param sendContinue asks the client for the body, if it waits for that.
   * @throws PlantStoreError for the head, in the turn of the call; rejects with later failures. Nothing is
   * responded then.
   */
  create(exchange: Exchange, token: string, body: Body, sendContinue?: () => void): Promise<void> {
    checkBodyHeaders(exchange.req);
    const reading = body.read();
    sendContinue?.();
    return this.#store(exchange, token, reading);
  }

  async #store(exchange: Exchange, token: string, reading: Promise<Buffer>): Promise<void> {
    const { socket } = exchange.req;
    const { bytesRead } = socket;
    const body = await reading;
    exchange.bodyBytes = body.length;
    if (body.length > LONG_BYTES) {
      this.#turn = this.#turn.then(() => turn());
      await this.#turn;
    }
    const isLate = socket.bytesRead !== bytesRead;
    if (isLate && !(await this.#tokens.verify(token))) throw invalidToken();
    if (exchange.isResponded || exchange.isOver) return;
    if (body.length === 0) throw new PlantStoreError("invalid_json", "body: it is empty");
    const plant = parseNewPlant(body);
    await this.#plants.create(plant);
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
  /** Why what was held is refused. */
  #error: unknown;

  constructor(exchange: Exchange, bytesMax: number) {
    this.#exchange = exchange;
    this.#bytesMax = bytesMax;
    this.#declared = Number(exchange.req.headers["content-length"] ?? 0);
  }

  /** Waits, and meanwhile keeps what arrives, in one piece; stops reading when that is enough. */
  holdUntil<T>(verdict: Promise<T>): Promise<T> {
    const release = takePieces(this.#exchange.req, (piece) => {
      try {
        if (this.#error === undefined) this.#add(piece);
      } catch (error) {
        this.#error = error;
      }
      return this.#size < HELD_BYTES;
    });
    return verdict.finally(release);
  }

  get #isAccepted(): boolean {
    return this.#exchange.caller !== undefined;
  }

  /**
   * Resolves with the body; never settles if the client leaves before its end.
   *
   * @throws PlantStoreError `body_too_large` or `overloaded` before the body is read; rejects with them later, or
   * with `internal` if other code has read of it.
   */
  read(): Promise<Buffer> {
    if (this.#declared > this.#bytesMax) throw tooLarge(this.#bytesMax);
    this.#exchange.hold(REQUEST_BYTES + COPIES * Math.max(this.#declared, this.#bytes.length));
    if (this.#error !== undefined) throw this.#error;
    const whole = this.#collect();
    this.#exchange.req.resume(); // other code may have paused it, too
    return whole;
  }

  #collect(): Promise<Buffer> {
    const { req } = this.#exchange;
    const isDecoded = typeof req.readableEncoding === "string";
    const isTouched = req.readableEnded || req.readableDidRead || isDecoded;
    req.on("error", ignore); // the response closes
    return new Promise<Buffer>((resolve, reject) => {
      if (isTouched) reject(touchedBody());
      const add = (piece: Buffer) => {
        try {
          this.#add(piece);
        } catch (error) {
          reject(error);
          forget();
        }
      };
      const end = () => {
        resolve(this.#bytes.subarray(0, this.#size));
        forget();
      };
      // A connection keeps its last request, which must not keep the body.
      const forget = () => {
        req.off("data", add).off("end", end).on("data", ignore);
        this.#bytes = NOTHING;
      };
      req.on("data", add).on("end", end);
    });
  }

  #add(piece: Buffer): void {
    if (!Buffer.isBuffer(piece)) throw touchedBody();
    const end = this.#size + piece.length;
    if (piece.length < SHORT_PIECES.bytes) this.#shortPieces++;
    const isTooLong = end > this.#bytesMax || this.#shortPieces > SHORT_PIECES.max;
    if (isTooLong) throw tooLarge(this.#bytesMax);
    if (this.#size === 0)
      this.#bytes = piece; // nearly always all of it
    else {
      if (end > this.#bytes.length) this.#grow(end);
      piece.copy(this.#bytes, this.#size);
    }
    this.#size = end;
  }

  /** Kept as they come, pieces of one byte would take some 250 bytes each. */
  #grow(end: number): void {
    const room = end <= this.#declared ? this.#declared : 2 * end;
    if (this.#isAccepted && end > this.#declared) this.#exchange.hold(COPIES * room);
    const longer = Buffer.allocUnsafe(room);
    this.#bytes.copy(longer, 0, 0, this.#size);
    this.#bytes = longer;
  }
}

function tooLarge(bytesMax: number): PlantStoreError {
  return new PlantStoreError(
    "body_too_large",
    `body: expected at most ${bytesMax} bytes, got more`,
  );
}

/** The client sees it: the developer who mounted the listener wrongly sends the first request. */
function touchedBody(): PlantStoreError {
  const what = "body: expected unread bytes, got a body that other code has read or decodes";
  const how = "mount the plant store's listener before any body parser and setEncoding()";
  return new PlantStoreError("internal", `${what}; ${how}`);
}
