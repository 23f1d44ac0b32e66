/**
 * The memory that requests hold together, shared fairly among clients.
 *
 * A client is the name of a token. Invariant: no client locks another one out. A client may hold at most as much as
 * stays free. So one client alone gets half of the budget, two that want everything get a third each, and a new
 * client always finds room.
 */
import { PlantStoreError } from "../core/errors.ts";
import { memoryLeft } from "../memory.ts";

export class Budget {
  /** The most that one request can hold: less than half, or it would never fit beside another one. */
  readonly requestMax: number;
  readonly #max: number;
  #held = 0;
  readonly #shares = new Map<string, number>();

  /** @param max by default a quarter of the memory that the process does not use yet, from 16 to 256 MiB. */
  constructor(max = Math.floor(Math.min(Math.max(memoryLeft() / 4, 2 ** 24), 2 ** 28))) {
    this.#max = max;
    this.requestMax = Math.floor((3 * max) / 8);
  }

  /** @throws PlantStoreError `overloaded` if there is no room; then nothing was taken. */
  take(client: string, bytes: number): void {
    const share = (this.#shares.get(client) ?? 0) + bytes;
    if (share > this.#max - this.#held - bytes) throw overloaded();
    this.#held += bytes;
    this.#shares.set(client, share);
  }

  giveBack(client: string, bytes: number): void {
    this.#held -= bytes;
    const share = (this.#shares.get(client) ?? 0) - bytes;
    if (share > 0) this.#shares.set(client, share);
    else this.#shares.delete(client);
  }
}

export function overloaded(): PlantStoreError {
  const message = "the server has too many requests in flight; send this one again later";
  return new PlantStoreError("overloaded", message);
}
