/**
 * Bounds of memory. Bodies of creates, requests under way, requests that wait on their connections and
 * answers to reads borrow from a budget of their own each, until the system has the answer.
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
  #lent = 0;
  /** How much of it each client holds that holds any. */
  readonly #shares = new Map<string, { lent: number }>();

  /** @param max by default by the memory there is. */
  constructor(max = defaultBudget()) {
    this.max = max;
  }

  /**
   * The budget of an option.
   *
   * @param unitBytes what it lends is in units of so many bytes.
   * @throws TypeError or RangeError for a number out of its range.
   */
  static of(options: Numbers, name: NumberOptionName, unitBytes = 1): Budget {
    const max = options[name] ?? Math.floor(defaultBudget() / unitBytes);
    assertNumber(name, max);
    return new Budget(max);
  }

  /**
   * Lends more to a client if it then holds no more than what stays free. So one client alone gets half
   * of the budget, two that want all get a third each, and another one always finds room.
   *
   * @param amount a negative one is given back.
   * @returns false, and lends nothing, if there is no room.
   */
  take(client: string, amount: number): boolean {
    const share = this.#shares.get(client) ?? { lent: 0 };
    const lent = this.#lent + amount;
    if (amount > 0 && share.lent + amount > this.max - lent) return false;
    this.#lent = lent;
    if (share.lent === 0) this.#shares.set(client, share);
    share.lent += amount;
    if (share.lent === 0) this.#shares.delete(client);
    return true;
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
   * Sets how much is held from now on. More than half of the budget counts as half: such a need finds room
   * only while nothing else is lent, and leaves some to others.
   *
   * @returns false, and changes nothing, if there is no room.
   */
  hold(amount: number): boolean {
    const counted = Math.min(amount, this.#budget.max / 2);
    if (!this.#budget.take(this.client, counted - this.#amount)) return false;
    this.#amount = counted;
    return true;
  }

  end(): void {
    this.hold(0);
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
  if (res.writableFinished || res.closed || hasLeft(req, res)) {
    then();
    return;
  }
  // A response that waits for earlier ones emits no "close" with its connection. Its request does,
  // and also when other code has read it to its end.
  const end = () => {
    res.off("finish", end);
    res.off("close", end);
    req.off("close", follow);
    req.socket.off?.("close", end); // a stand-in has none
    then();
  };
  const follow = () => {
    if (req.socket.destroyed) end();
    else req.socket.setMaxListeners(0).on("close", end); // as many as there are such responses
  };
  res.on("finish", end); // all that some stand-ins emit
  res.on("close", end);
  if (req.closed || req.socket.destroyed) follow();
  else req.on("close", follow);
}

/** Nearly every answer leaves in the turn of its end. Over HTTP/2 many responses share a socket. */
function hasLeft({ httpVersionMajor }: IncomingMessage, res: ServerResponse): boolean {
  return res.writableEnded && httpVersionMajor === 1 && res.socket?.writableLength === 0;
}

/** Memory of a request and its response in Node and this server, without headers (measured). */
const REQUEST_BYTES = 6 * 1024;
/** Memory of one header, without its characters. */
const HEADER_BYTES = 128;

/** About how many bytes a request holds until it is answered, without its body. */
export function heldBytes({ rawHeaders = [], url = "" }: IncomingMessage): number {
  let characters = url.length;
  for (const text of rawHeaders) characters += text.length;
  return REQUEST_BYTES + (HEADER_BYTES / 2) * rawHeaders.length + characters;
}

/** An ordinary request; one with a head of 16 KiB counts as four. */
const WEIGHT_BYTES = 8 * 1024;

/** For how many requests one counts while it is under way. */
export function weightOf(req: IncomingMessage): number {
  return Math.max(1, Math.round(heldBytes(req) / WEIGHT_BYTES));
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
  #onOver: () => void = () => {};

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
      this.#lease.end();
      this.#onOver();
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
    this.#lease.end();
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
