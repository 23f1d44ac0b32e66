/**
 * Bounds of memory. Bodies of creates, requests under way, requests that wait on their connections and
 * answers to reads borrow from a budget of their own each: clients that ask for plants and never read
 * the answers may keep others from reading, but nobody from creating.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import type { Gate } from "../core/gate.ts";

export class Budget {
  readonly #max: number;
  #held = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Returns false, and takes nothing, if more than the maximum would be held.
   *
   * @param own the part that this borrower holds. If nobody else holds any, it may exceed the maximum:
   * a need larger than the budget would never find room.
   */
  take(amount: number, own?: number): boolean {
    if (this.#held + amount > this.#max && this.#held !== own) return false;
    this.#held += amount;
    return true;
  }

  giveBack(amount: number): void {
    this.#held -= amount;
  }
}

export function overloaded(): PlantStoreError {
  return new PlantStoreError(
    "overloaded",
    "Cannot take the request now: too many are under way; send it again later",
  );
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
 * The bytes that the answer to one read holds, from the first look into the store until it is sent or
 * its client has left. A refused answer returns all of them at once, so of several reads that do not
 * fit together, one always finds room.
 */
export class ReadLease {
  readonly #budget: Budget;
  readonly #req: IncomingMessage;
  readonly #res: ServerResponse;
  readonly #bytesMin: number;
  #bytes: number;
  #isOver = false;
  #onOver: () => void = () => {};

  /**
   * Call `endWhenSent` in any case.
   *
   * @param bytesMin held in any case.
   * @throws PlantStoreError `overloaded` if the budget has no room for them.
   */
  constructor(budget: Budget, bytesMin: number, req: IncomingMessage, res: ServerResponse) {
    if (!budget.take(bytesMin)) throw overloaded();
    this.#budget = budget;
    this.#bytesMin = bytesMin;
    this.#bytes = bytesMin;
    this.#req = req;
    this.#res = res;
  }

  /** Whether the answer is sent or its client has left. */
  get isOver(): boolean {
    return this.#isOver || this.#res.closed || this.#req.socket.destroyed;
  }

  /** Ends the lease once the answer is sent or its client has left; at once if the system has all of it. */
  endWhenSent(): void {
    const req = this.#req;
    const res = this.#res;
    if (res.writableFinished || res.closed) this.#end();
    else {
      // A response that waits for earlier ones emits no "close" with its connection. Its request does,
      // and also when other code has read it to its end.
      const end = () => {
        res.off("close", end);
        req.off("close", follow);
        req.socket.off("close", end);
        this.#end();
      };
      const follow = () => {
        if (req.socket.destroyed) end();
        else req.socket.on("close", end);
      };
      res.on("close", end);
      if (req.closed || req.socket.destroyed) follow();
      else req.on("close", follow);
    }
  }

  #end(): void {
    this.#isOver = true;
    this.#giveBack();
    this.#onOver();
  }

  /** Reads when the gate lets it; resolves with `undefined` if the lease is over by then. */
  readIn<T>(gate: Gate, read: () => Promise<T>): Promise<T | undefined> {
    return gate.pass(async () => (this.isOver ? undefined : read()));
  }

  /**
   * Sets how many bytes the answer holds from now on.
   *
   * @throws PlantStoreError `overloaded`, and gives everything back.
   */
  hold(bytes: number): void {
    if (this.isOver) return;
    const wanted = Math.max(this.#bytesMin, bytes);
    if (!this.#budget.take(wanted - this.#bytes, this.#bytes)) {
      this.#giveBack();
      throw overloaded();
    }
    this.#bytes = wanted;
  }

  /** Resolves when the connection takes more of the answer, or the lease is over. */
  async room(res: ServerResponse): Promise<void> {
    if (this.isOver) return;
    await new Promise<void>((resolve) => {
      this.#onOver = resolve;
      res.once("drain", resolve);
    });
  }

  #giveBack(): void {
    this.#budget.giveBack(this.#bytes);
    this.#bytes = 0;
  }
}
