/** A server that is frozen while a token is revoked: what it answers to requests that were sent later. */
import { performance } from "node:perf_hooks";
import type { NewToken } from "../../src/index.ts";
import { Client } from "./client.ts";
import { encodeRequest } from "./contract.ts";
import type { Freezer } from "./freeze.ts";
import { until } from "./watch.ts";

/** A revocation must be in force after so long. */
const IN_FORCE_MS = 2000;

/** A server, and its operator. */
export interface Target {
  readonly pid: number;
  readonly port: number;
  createToken(token: NewToken): Promise<string>;
  revokeToken(name: string): Promise<void>;
}

/** How many answers had each status. */
export class Answers {
  readonly #counts = new Map<number, number>();

  add(status: number): void {
    this.#counts.set(status, this.of(status) + 1);
  }

  of(status: number): number {
    return this.#counts.get(status) ?? 0;
  }

  get total(): number {
    return [...this.#counts.values()].reduce((sum, count) => sum + count, 0);
  }

  toString(): string {
    return [...this.#counts].map(([status, count]) => `${count} x ${status}`).join(", ");
  }
}

export interface Round {
  /** To requests with a token that was revoked more than 2 s before they were sent. */
  readonly revoked: Answers;
  /** To requests with a token that stays good. */
  readonly good: Answers;
}

let id = 0;

/**
 * Freezes a server, revokes a token, and sends creates more than 2 s later: on a connection that used
 * the token before, on one that has sent all but the end of a body, and on a new one. Then thaws it.
 */
export async function freezeOnce(
  { pid, port, createToken, revokeToken }: Target,
  freezer: Freezer,
  { revoked, good }: Round,
): Promise<void> {
  const name = `thief-${++id}`;
  const tokens = {
    thief: await createToken({ name }),
    owner: await createToken({ name: `owner-${id}` }),
  };
  const clients: Client[] = [];
  const connect = async () => {
    const client = await Client.connect(port);
    clients.push(client);
    return client;
  };
  const create = (token: string) => encodeRequest({ token }, { body: `{"id":${++id},"name":"x"}` });
  const old = await connect();
  const half = await connect();
  const oldOfOwner = await connect();
  try {
    for (const [client, token] of [
      [old, tokens.thief],
      [half, tokens.thief],
      [oldOfOwner, tokens.owner],
    ] as const) {
      await until("the token is accepted", async () => {
        await client.send(create(token));
        return (await client.next()).status === 200;
      });
    }
    const halfCreate = create(tokens.thief);
    await half.send(halfCreate.subarray(0, -3));
    freezer.freeze(pid);
    await revokeToken(name);
    const revokedAt = performance.now();
    await until("it must be in force", () => performance.now() - revokedAt > IN_FORCE_MS);
    await old.send(create(tokens.thief));
    await half.send(halfCreate.subarray(-3));
    const fresh = await connect();
    await fresh.send(create(tokens.thief));
    await oldOfOwner.send(create(tokens.owner));
    const freshOfOwner = await connect();
    await freshOfOwner.send(create(tokens.owner));
    freezer.thaw(pid);
    for (const client of [old, half, fresh]) revoked.add((await client.next()).status);
    for (const client of [oldOfOwner, freshOfOwner]) good.add((await client.next()).status);
  } finally {
    for (const client of clients) client.destroy();
  }
}
