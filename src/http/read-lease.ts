/**
 * What the answers to reads hold in memory, bounded together.
 *
 * A lease lasts from the first look into the store until the answer is sent or
 * its client has gone. A read that is refused holds nothing from then on, though
 * its refusal may wait behind other answers: of reads that have no room together
 * one finds it always, whichever is refused first. The bound is not the one of
 * creates: clients that ask for plants and never read them may keep others from
 * reading, but nobody from writing. What is counted is what an answer holds while
 * it waits, in bytes as they are sent, and what a list reads at once; one plant's
 * bytes are known only when they were read, and counted then.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { overloaded, type Pending } from "./body.ts";

/** What a read takes at least; up to half of it is the answer's. */
export const LEASE_BYTES = {
  /** A request that waits, and a plant like most. */
  plant: 4 * 1024,
  /** What a store reads at once, and a slice that a socket has not taken yet. */
  list: 256 * 1024,
} as const;

export class ReadLease {
  readonly #pending: Pending;
  readonly #base: number;
  #bytes: number;
  #isOver = false;
  #onOver: () => void = () => {};

  /** @throws PlantStoreError `overloaded` when no more may be held. */
  constructor(pending: Pending, base: number, req: IncomingMessage, res: ServerResponse) {
    if (!pending.take(base)) throw overloaded();
    this.#pending = pending;
    this.#base = base;
    this.#bytes = base;
    // A response that waits behind others does not hear that its connection has
    // closed. Its request does, unless somebody reads it to its end.
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

  /** Whether nobody is left to read, or everything was sent. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * So many bytes of the answer wait from now on.
   *
   * @throws PlantStoreError `overloaded`, with all given back.
   */
  hold(bytes: number): void {
    if (this.#isOver) return;
    const wanted = Math.max(this.#base, this.#base / 2 + bytes);
    if (!this.#pending.take(wanted - this.#bytes, this.#bytes)) {
      this.#giveBack();
      throw overloaded();
    }
    this.#bytes = wanted;
  }

  /** Resolves when there is room again behind `res`, or the lease is over. */
  async room(res: ServerResponse): Promise<void> {
    if (this.#isOver) return;
    await new Promise<void>((resolve) => {
      const goOn = () => {
        res.off("drain", goOn);
        resolve();
      };
      this.#onOver = goOn;
      res.on("drain", goOn);
    });
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#giveBack();
    this.#onOver();
  }

  #giveBack(): void {
    this.#pending.giveBack(this.#bytes);
    this.#bytes = 0;
  }
}
