/** Servers that are stopped for a while (SIGSTOP), as a suspended machine does it. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createToken, revokeToken } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { plant, Trial } from "./trial.ts";

/** A revocation is in force after so long. */
const IN_FORCE_MS = 2000;

test(
  "a server that is frozen for more than 2 s refuses a token that was revoked meanwhile, and accepts others",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t);
    const thief = await createToken(trial.folder, { name: "thief" });
    const create = (token: string, id: number) => encodeRequest({ token }, { body: plant(id) });
    const connect = async (t: TestContext) => {
      const client = await Client.connect(trial.server.port);
      t.after(() => client.destroy());
      return client;
    };
    const [old, half, owner] = [await connect(t), await connect(t), await connect(t)] as const;
    for (const client of [old, half]) {
      await until("the token is accepted", async () => {
        await client.send(create(thief, 1));
        return (await client.next()).status === 200;
      });
    }
    const halfCreate = create(thief, 2);
    await half.send(halfCreate.subarray(0, -3));
    process.kill(trial.pid, "SIGSTOP");
    await revokeToken(trial.folder, "thief");
    const revokedAt = performance.now();
    await until("it is in force", () => performance.now() - revokedAt > IN_FORCE_MS);
    await old.send(create(thief, 3));
    await half.send(halfCreate.subarray(-3));
    const fresh = await connect(t);
    await fresh.send(create(thief, 4));
    await owner.send(create(trial.token, 5));
    process.kill(trial.pid, "SIGCONT");
    for (const client of [old, half, fresh]) assert.equal((await client.next()).status, 401);
    assert.equal((await owner.next()).status, 200);
    assert.deepEqual(trial.messages, []);
  },
);

test(
  "a server that was frozen while another one took its place acknowledges nothing",
  TIMEOUT,
  async (t) => {
    const first = await Trial.start(t);
    for (let id = 1; id <= 2; id++) assert.equal(await first.create(id), 200);
    process.kill(first.pid, "SIGSTOP");
    for (const name of fs.readdirSync(first.folder)) {
      if (name.startsWith("lock.")) fs.rmSync(join(first.folder, name));
    }
    const second = await Trial.start(t, { folder: first.folder, reuseToken: first.token });
    // It has written nothing yet, so the log is as the first one left it.
    const answers = [first.create(1), first.create(3)].map((answer) =>
      answer.catch(() => undefined),
    );
    process.kill(first.pid, "SIGCONT");
    for (const answer of await Promise.all(answers)) assert.notEqual(answer, 200);
    assert.equal((await first.ended).status, 1);
    assert.equal(await second.create(4), 200);
  },
);
