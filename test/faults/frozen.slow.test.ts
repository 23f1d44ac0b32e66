/** Processes that are frozen or busy, and disks that do not answer: a token is neither believed for longer than 2 s, nor refused without need. */
import assert from "node:assert/strict";
import fs from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { ask } from "../support/admin.ts";
import { runCli } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { FREEZERS } from "../support/freeze.ts";
import { freezeOnce } from "../support/frozen-server.ts";
import { postPlant } from "../support/post.ts";
import { runToEnd } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { errorNumber, startService } from "../support/service.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { Trial } from "./trial.ts";

for (const [how, makeFreezer] of Object.entries(FREEZERS)) {
  test(
    `a server that is frozen (${how}) refuses a token that was revoked meanwhile, accepts others, and stays ready`,
    TIMEOUT,
    async (t) => {
      const freezer = makeFreezer(t);
      if (typeof freezer === "string") return t.skip(freezer);
      const folder = makeFolder(t);
      const admin = `127.0.0.1:${await freePort()}`;
      const trial = await Trial.start(t, { folder, args: ["--admin", admin], env: freezer.env });
      const states: Promise<number | undefined>[] = [];
      const thaw = (pid: number) => {
        states.push(ask(`http://${admin}`, "/readyz").then(({ status }) => status));
        freezer.thaw(pid);
      };
      for (let round = 0; round < 2; round++) {
        const { revoked, good } = await freezeOnce(trial, { ...freezer, thaw });
        assert.deepEqual([revoked, good], [Array(3).fill(401), Array(2).fill(200)]);
      }
      assert.deepEqual(await Promise.all(states), [200, 200]);
      assert.deepEqual(trial.messages, []);
    },
  );
}

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

test("a token that the command line has created is accepted at once", TIMEOUT, async (t) => {
  const { folder, server } = await Trial.start(t);
  for (let id = 0; id < 5; id++) {
    const { stdout } = await runCli(["token", "create", `app-${id}`, "--data", folder]);
    const answer = await postPlant(server.url, stdout.trim(), `{"id":${id},"name":"x"}`);
    assert.equal(answer.status, 200);
  }
});

test(
  "while the event loop is busy for 3 s no good token is refused, and the tokens stay readable",
  TIMEOUT,
  async (t) => {
    const { port, token, tokens, post } = await startService(t);
    const client = await Client.connect(port);
    t.after(() => client.destroy());
    const create = (id: number) => encodeRequest({ token }, { body: `{"id":${id},"name":"x"}` });
    await client.send(create(1));
    assert.equal((await client.next()).status, 200);
    const sent = client.send(create(2));
    const posted = post('{"id":3,"name":"x"}');
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 3000); // as a long computation
    assert.equal(tokens.isReadable, true);
    await sent;
    assert.deepEqual([(await client.next()).status, (await posted).status], [200, 200]);
  },
);

/** Reads that take threads of the pool until the test writes to the FIFO. */
async function holdThreads(t: TestContext, count: number): Promise<() => void> {
  const fifo = join(makeFolder(t), "fifo");
  await runToEnd(["mkfifo", fifo]);
  const fd = fs.openSync(fifo, fs.constants.O_RDWR);
  const reads = Array.from(
    { length: count },
    () => new Promise((resolve) => fs.read(fd, Buffer.alloc(1), 0, 1, null, resolve)),
  );
  let isHeld = true;
  const release = () => {
    if (isHeld) fs.writeSync(fd, "x".repeat(count));
    isHeld = false;
  };
  t.after(async () => {
    release();
    await Promise.all(reads);
    fs.closeSync(fd);
  });
  return release;
}

test(
  "while slow reads hold two threads of the pool no good token is refused",
  TIMEOUT,
  async (t) => {
    const { post, tokens } = await startService(t);
    await holdThreads(t, 2);
    const end = performance.now() + 3000;
    await until("3 s have passed", async () => {
      assert.equal((await post('{"id":1,"name":"x"}')).status, 200);
      assert.equal(tokens.isReadable, true);
      return performance.now() > end;
    });
  },
);

test(
  "while the disk answers no look every token is answered 50306 2 s later, until it answers",
  TIMEOUT,
  async (t) => {
    const { post, url, tokens } = await startService(t);
    assert.equal((await post('{"id":1,"name":"x"}')).status, 200);
    const release = await holdThreads(t, 4); // all of them
    await until("the tokens are unreadable", () => !tokens.isReadable);
    assert.equal(errorNumber(await postPlant(url, "pst_unknown", "{}")), 50306);
    assert.equal(errorNumber(await post('{"id":1,"name":"x"}')), 50306);
    release();
    await until("the tokens are readable", () => tokens.isReadable);
    assert.equal((await post('{"id":1,"name":"x"}')).status, 200);
  },
);
