/**
 * What requests hold in memory, bounded. Bodies of creates, requests under way, requests that wait
 * on their connections and answers to reads borrow from a budget of their own each, so clients that
 * ask for plants and never read them may keep others from reading, but nobody from creating.
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
   * False, and nothing taken, if more than the maximum would be held. A borrower that alone holds
   * all that is held, its `own`, may have more: what is larger than the budget would never find room.
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

/** More is under way than may be. */
export function overloaded(): PlantStoreError {
  return new PlantStoreError(
    "overloaded",
    "Cannot take the request now: too many are under way; send it again later",
  );
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

/**
 * What the answer to one read holds, from the first look into the store until it is sent or its
 * client has gone. An answer that is refused holds nothing from then on, so of reads that have no
 * room together one always finds it.
 */
export class ReadLease {
  readonly #budget: Budget;
  readonly #bytesMin: number;
  #bytes: number;
  #isOver = false;
  #onOver: () => void = () => {};

  /**
   * @param bytesMin held in any case.
   * @throws PlantStoreError `overloaded` if no more may be held.
   */
  constructor(budget: Budget, bytesMin: number, req: IncomingMessage, res: ServerResponse) {
    if (!budget.take(bytesMin)) throw overloaded();
    this.#budget = budget;
    this.#bytesMin = bytesMin;
    this.#bytes = bytesMin;
    // A response that waits for earlier ones emits no "close" with its connection. Its request does,
    // but also when other code has read it to its end.
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
    if (res.closed) end();
    else if (req.closed || req.socket.destroyed) follow();
    else req.on("close", follow);
  }

  /** Whether the answer is sent or its client has gone. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Reads when it is its turn at a gate; `undefined` if the lease is over by then. */
  readIn<T>(gate: Gate, read: () => Promise<T>): Promise<T | undefined> {
    return gate.pass(async () => (this.#isOver ? undefined : read()));
  }

  /**
   * The answer holds so many bytes from now on.
   *
   * @throws PlantStoreError `overloaded`, with everything given back.
   */
  hold(bytes: number): void {
    if (this.#isOver) return;
    const wanted = Math.max(this.#bytesMin, bytes);
    if (!this.#budget.take(wanted - this.#bytes, this.#bytes)) {
      this.#giveBack();
      throw overloaded();
    }
    this.#bytes = wanted;
  }

  /** Resolves when the connection takes more of the answer, or the lease is over. */
  async room(res: ServerResponse): Promise<void> {
    if (this.#isOver) return;
    await new Promise<void>((resolve) => {
      this.#onOver = resolve;
      res.once("drain", resolve);
    });
  }

  #end(): void {
    this.#isOver = true;
    this.#giveBack();
    this.#onOver();
  }

  #giveBack(): void {
    this.#budget.giveBack(this.#bytes);
    this.#bytes = 0;
  }
}
