/** A server that is frozen while a token is revoked: what it answers to requests that were sent later. */
import { performance } from "node:perf_hooks";
import { createToken, revokeToken } from "../../src/index.ts";
import type { Trial } from "../faults/trial.ts";
import { Client } from "./client.ts";
import { encodeRequest } from "./contract.ts";
import type { Freezer } from "./freeze.ts";
import { until } from "./watch.ts";

/** A revocation must be in force after so long. */
const IN_FORCE_MS = 2000;

let id = 0;

/**
 * Freezes a server, revokes a token, and sends creates more than 2 s later: on a connection that used
 * the token before, on one that has sent all but the end of a body, and on a new one. Then thaws it.
 *
 * @returns the statuses of the answers to those, and to requests with a token that stays good.
 */
export async function freezeOnce({ pid, folder, server }: Trial, freezer: Freezer) {
  const name = `thief-${++id}`;
  const tokens = {
    thief: await createToken(folder, { name }),
    owner: await createToken(folder, { name: `owner-${id}` }),
  };
  const clients: Client[] = [];
  const connect = async () => {
    const client = await Client.connect(server.port);
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
    await revokeToken(folder, name);
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
    const statuses = async (...from: Client[]) =>
      (await Promise.all(from.map((client) => client.next()))).map(({ status }) => status);
    return {
      revoked: await statuses(old, half, fresh),
      good: await statuses(oldOfOwner, freshOfOwner),
    };
  } finally {
    for (const client of clients) client.destroy();
  }
}
