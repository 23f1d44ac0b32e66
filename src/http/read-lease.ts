/**
 * What the answers to reads hold in memory, bounded together.
 *
 * A lease lasts from the first look into the store until the answer is sent or
 * its client has gone. The bound is not the one of creates: clients that ask
 * for plants and never read them may keep others from reading, but nobody
 * from writing.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { overloaded, type Pending } from "./body.ts";

/** For what a store reads ahead, and a socket has not taken yet. */
const BASE_BYTES = 256 * 1024;

export class ReadLease {
  readonly #pending: Pending;
  #bytes = 0;
  #isOver = false;
  #onOver: () => void = () => {};

  /** @throws PlantStoreError `overloaded` when no more may be held. */
  constructor(pending: Pending, req: IncomingMessage, res: ServerResponse) {
    this.#pending = pending;
    this.grow(BASE_BYTES);
    // A response that waits behind others does not hear that its connection has
    // closed. Its request does, unless somebody has read it to its end.
    const witness = req.closed ? req.socket : req;
    const end = () => {
      res.off("close", end);
      witness.off("close", end);
      this.#end();
    };
    res.on("close", end);
    witness.on("close", end);
    if (req.socket.destroyed) end();
  }

  /** Whether nobody is left to read, or everything was sent. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** @throws PlantStoreError `overloaded`. */
  grow(bytes: number): void {
    if (this.#isOver) return;
    if (!this.#pending.take(bytes)) throw overloaded();
    this.#bytes += bytes;
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
    this.#pending.giveBack(this.#bytes);
    this.#onOver();
  }
}
