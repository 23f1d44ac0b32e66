/**
 * What requests hold in memory: the budgets that lend it, and the bodies of creates. Knows nothing about
 * JSON.
 *
 * Bodies of creates, requests under way, requests that wait on their connections and answers to reads
 * borrow from a budget of their own each, until the system has the answer. A body is collected within the
 * limits, and borrows as it grows.
 *
 * Invariant: no client keeps another one out. A client is the name of a token, or all requests without one.
 */

import type { IncomingMessage, ServerResponse } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import type { Gate } from "../core/gate.ts";
import { assertNumber, type NumberOptionName, type Numbers } from "../core/options.ts";
import { defaultBudget } from "../memory.ts";

/** The client of all requests without a good token. */
export const NO_TOKEN = "";

export class Budget {
  readonly max: number;
  /** In all; only leases change it, and the shares. */
  lent = 0;
  /** What each client holds that holds any. */
  readonly shares = new Map<string, number>();

  /** @param max by default by the memory there is. */
  constructor(max = defaultBudget()) {
    this.max = max;
  }

  /**
   * The budget of an option.
   *
   * @param unitBytes what it lends is in units of so many bytes.
   * @throws RangeError for a number out of its range.
   */
  static of(options: Numbers, name: NumberOptionName, unitBytes = 1): Budget {
    const max = options[name] ?? Math.floor(defaultBudget() / unitBytes);
    assertNumber(name, max);
    return new Budget(max);
  }
}

/** What one borrower holds of a budget. */
export class Lease {
  readonly client: string;
  readonly #budget: Budget;
  #amount = 0;

  constructor(budget: Budget, client: string) {
    this.#budget = budget;
    this.client = client;
  }

  /**
   * Sets how much is held from now on; 0 gives all of it back. More is lent to a client that then holds no
   * more than what stays free. So one client alone gets half of the budget, two that want all get a third
   * each, and another one always finds room. More than half of the budget counts as half.
   *
   * @returns false, and changes nothing, if there is no room.
   */
  hold(amount: number): boolean {
    const budget = this.#budget;
    const more = Math.min(amount, budget.max / 2) - this.#amount;
    const share = (budget.shares.get(this.client) ?? 0) + more;
    if (more > 0 && share > budget.max - budget.lent - more) return false;
    budget.lent += more;
    if (share === 0) budget.shares.delete(this.client);
    else budget.shares.set(this.client, share);
    this.#amount += more;
    return true;
  }
}

export function overloaded(): PlantStoreError {
  return new PlantStoreError(
    "overloaded",
    "Cannot take the request now: too many are under way; send it again later",
  );
}

/** Calls `then` once the system has the whole answer or the client has left; at once if that is so. */
export function afterSent(req: IncomingMessage, res: ServerResponse, then: () => void): void {
  // Nearly every answer leaves in the turn of its end.
  const isSent = res.writableEnded && res.socket?.writableLength === 0;
  if (isSent || res.writableFinished || res.closed || req.socket.destroyed) {
    then();
    return;
  }
  // A response that waits for earlier ones emits no "close" with its connection, and after a CONNECT none does.
  const { socket } = req;
  const end = () => {
    res.off("finish", end);
    res.off("close", end);
    socket.off("close", end);
    then();
  };
  res.on("finish", end); // all that Fastify's inject() emits
  res.on("close", end);
  socket.setMaxListeners(0).on("close", end); // as many as there are such responses
}

/**
 * The bytes that the answer to one read holds, from the first look into the store until the system has it
 * or its client has left. A refused answer returns all of them at once, so of several reads that do not
 * fit together, one always finds room.
 */
export class ReadLease {
  readonly #lease: Lease;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #bytesMin: number;
  #isOver = false;
  #onOver: (() => void) | undefined;

  /**
   * Call `endWhenSent` in any case.
   *
   * @param bytesMin held in any case.
   * @throws PlantStoreError `overloaded` if the budget has no room for them.
   */
  constructor(lease: Lease, bytesMin: number, req: IncomingMessage, res: ServerResponse) {
    if (!lease.hold(bytesMin)) throw overloaded();
    this.#lease = lease;
    this.#bytesMin = bytesMin;
    this.#req = req;
    this.#res = res;
  }

  /** Whether the system has the answer or its client has left. */
  get isOver(): boolean {
    return this.#isOver || this.#res.closed || this.#req.socket.destroyed;
  }

  /** Ends the lease once the system has the answer or the client has left; at once if that is so. */
  endWhenSent(): void {
    afterSent(this.#req, this.#res, () => {
      this.#isOver = true;
      this.#lease.hold(0);
      this.#onOver?.();
    });
  }

  /** Reads when the gate lets this client; resolves with `undefined` if the lease is over by then. */
  readIn<T>(gate: Gate, read: () => Promise<T>): Promise<T | undefined> {
    return gate.pass(async () => (this.isOver ? undefined : read()), this.#lease.client);
  }

  /**
   * Sets how many bytes the answer holds from now on.
   *
   * @throws PlantStoreError `overloaded`, and gives everything back.
   */
  hold(bytes: number): void {
    if (this.isOver || this.#lease.hold(Math.max(this.#bytesMin, bytes))) return;
    this.#lease.hold(0);
    throw overloaded();
  }

  /** Resolves when the connection takes more of the answer, or the lease is over. */
  async room(res: ServerResponse): Promise<void> {
    if (this.isOver) return;
    await new Promise<void>((resolve) => {
      this.#onOver = resolve;
      res.once("drain", resolve);
    });
  }
}

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

/**
 * What a body becomes: its text and its record, then its answer and a copy on the way to the socket. A lone
 * surrogate of three bytes becomes an escape of six.
 */
const COPIES = 3;
/** About the most that an answer without a plant takes, with its head: messages are cut. */
const ANSWER_BYTES = 1024;
const NOTHING = Buffer.alloc(0);

/** Puts a body together from chunks, within the limits. */
export class BodyCollector {
  /** Of the memory that the body takes. Clients take turns. */
  readonly lease: Pick<Lease, "client" | "hold">;
  readonly #bytesMax: number;
  readonly #declared: number;
  /** Until it was called: a request lives on until it is answered, and longer. */
  #onEnd: BodyHandler | undefined;
  /** Its first `#size` bytes are the body so far. */
  #body: Buffer = NOTHING;
  #size = 0;

  /** @param declared how many bytes are announced; 0 if that is not known. */
  constructor(
    bytesMax: number,
    declared: number,
    lease: Pick<Lease, "client" | "hold">,
    onEnd: BodyHandler,
  ) {
    this.#bytesMax = bytesMax;
    this.#declared = declared;
    this.lease = lease;
    this.#onEnd = onEnd;
  }

  /**
   * @param chunk bytes; anything else ends the body with the failure `internal`.
   * @returns whether more is wanted.
   */
  add(chunk: unknown): boolean {
    if (this.#onEnd === undefined) return false;
    if (!Buffer.isBuffer(chunk)) this.end(touchedBody());
    else if (this.#size + chunk.length > this.#bytesMax) this.end(tooLarge(this.#bytesMax));
    else if (!this.#append(chunk)) this.end(overloaded());
    return this.#onEnd !== undefined;
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
      if (!this.lease.hold(ANSWER_BYTES + COPIES * room)) return false;
      const body = start === 0 ? chunk : Buffer.allocUnsafe(room);
      this.#body.copy(body, 0, 0, start);
      this.#body = body;
    }
    if (start > 0) chunk.copy(this.#body, start);
    this.#size = end;
    return true;
  }

  /** All of the body has arrived, or it failed. */
  end(failure?: PlantStoreError): void {
    const body = this.#body.length === this.#size ? this.#body : this.#body.subarray(0, this.#size);
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    this.#body = NOTHING;
    onEnd?.(failure === undefined ? body : undefined, failure);
  }

  /** The client has left. */
  leave(): void {
    const onEnd = this.#onEnd;
    this.#onEnd = undefined;
    this.#body = NOTHING;
    onEnd?.(undefined);
  }
}
