/** A running server that cannot read its token file: a revoked token is never accepted for longer than 2 s. */
import assert from "node:assert/strict";
import { mkdirSync, renameSync, rmdirSync } from "node:fs";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { createToken, revokeToken } from "../../src/index.ts";
import { ask } from "../support/admin.ts";
import { runCli } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { freePort } from "../support/serve.ts";
import { errorNumber } from "../support/service.ts";
import { tokenLogPath } from "../support/token-logs.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canRun, canTrace, limit, nextDescriptor, openSockets, traced } from "./machine.ts";
import { plant, Trial } from "./trial.ts";

const SPARE = 8;

/** Sends all its creates on one connection, so the token is judged with the first of them. */
async function connectAs(t: TestContext, { server }: Trial, token: string) {
  const client = await Client.connect(server.port);
  t.after(() => client.destroy());
  return async (id: number): Promise<number> => {
    await client.send(encodeRequest({ token }, { body: plant(id) }));
    const answer = await client.next();
    return answer.status === 200 ? 200 : errorNumber(answer);
  };
}

test(
  "a token that is revoked while idle connections use every descriptor is refused, also on old connections",
  TIMEOUT,
  async (t) => {
    if (!canRun(t, "prlimit", "--version")) return;
    const folder = makeFolder(t);
    const thief = await createToken(folder, { name: "thief" });
    const trial = await Trial.start(t, { folder });
    const createAsThief = await connectAs(t, trial, thief);
    assert.equal(await createAsThief(1), 200);

    const before = openSockets(trial.pid);
    limit(trial.pid, `--nofile=${nextDescriptor(trial.pid) + SPARE}:`);
    // More clients than there are descriptors; a client that is turned away connects again.
    let turnedAway = 0;
    let isOver = false;
    const hold = () => {
      const socket = net.connect(trial.server.port, "127.0.0.1").on("error", () => {});
      socket.resume().on("close", () => {
        turnedAway++;
        if (!isOver) setTimeout(hold, 5);
      });
      t.after(() => {
        isOver = true;
        socket.destroy();
      });
    };
    for (let client = 0; client < 4 * SPARE; client++) hold();
    await until("some are turned away", () => turnedAway > SPARE);
    assert.ok(openSockets(trial.pid) >= before + SPARE - 2);

    assert.equal((await runCli(["token", "revoke", "thief", "--data", folder])).status, 0);
    // By 50306 unless a look finds a descriptor.
    const refusals = [40102, 50306];
    await until("the thief is refused", async () => refusals.includes(await createAsThief(2)));
  },
);

test(
  "while the token file cannot be opened every token is answered 50306, streams are cut, and /readyz reports why",
  TIMEOUT,
  async (t) => {
    const folder = makeFolder(t);
    const admin = `127.0.0.1:${await freePort()}`;
    const reader = await createToken(folder, { name: "reader", scopes: ["read"] });
    const trial = await Trial.start(t, { folder, args: ["--admin", admin] });
    const readiness = async () => {
      const { status, text } = await ask(`http://${admin}`, "/readyz");
      return [status, JSON.parse(text).state];
    };
    const create = await connectAs(t, trial, trial.token);
    assert.equal(await create(1), 200);
    // More than the buffers of the sockets hold, so the stream cannot end before the client reads it.
    const name = "n".repeat(900_000);
    for (let id = 2; id < 20; id++) assert.equal(await trial.create(id, name), 200);
    const stream = net.connect(trial.server.port, "127.0.0.1");
    t.after(() => stream.destroy());
    const headers = { Accept: "application/x-ndjson", "Content-Type": undefined };
    stream.write(encodeRequest({ token: reader }, { method: "GET", headers }));
    await new Promise((resolve) => stream.once("readable", resolve));

    const log = tokenLogPath(folder);
    renameSync(log, `${log}.away`);
    mkdirSync(log);
    await until("the token is refused", async () => (await create(1)) === 50306);
    assert.equal(await trial.create(1), 50306, "on a new connection, too");
    assert.deepEqual(await readiness(), [503, "tokens-unreadable"]);
    const naked = await Client.connect(trial.server.port);
    await naked.send(encodeRequest(trial, { headers: { Authorization: undefined } }));
    assert.equal(errorNumber(await naked.next()), 40101, "a missing token needs no token file");
    naked.destroy();
    let streamed = "";
    stream.setEncoding("latin1").on("data", (text) => {
      streamed += text;
    });
    await new Promise((resolve) => stream.on("error", () => {}).on("close", resolve));
    assert.match(streamed, /^HTTP\/1\.1 200 /);
    assert.ok(!streamed.endsWith("\r\n0\r\n\r\n"), "the stream is not whole");

    rmdirSync(log);
    renameSync(`${log}.away`, log);
    await until("the token is accepted again", async () => (await create(1)) === 200);
    assert.deepEqual(await readiness(), [200, "ready"]);
  },
);

const INJECTIONS: readonly [fault: string, call: string][] = [
  ["ENFILE", "openat"],
  ["EMFILE", "openat"],
  ["EACCES", "openat"],
  ["EIO", "pread64"],
];

for (const [fault, call] of INJECTIONS) {
  test(`a token revoked during ${fault} on its file is refused`, TIMEOUT, async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const thief = await createToken(folder, { name: "thief" });
    // The first call of each thread works, so that the server starts.
    const trace = traced(t, [
      ...["-P", tokenLogPath(folder), "-e", `trace=${call}`],
      ...["-e", `inject=${call}:error=${fault}:when=2+`],
    ]);
    const trial = await Trial.start(t, { folder, ...trace });
    const create = await connectAs(t, trial, thief);
    assert.equal(await create(1), 200);
    await revokeToken(folder, "thief");
    await until("the token is refused", async () => (await create(1)) === 50306);
    assert.match(trace.read(), /INJECTED/);
    const warnings = trial.messages.filter((line) => line.includes("Cannot follow"));
    assert.ok(warnings.length === 1 && warnings[0]?.includes(fault), trial.messages.join("\n"));
  });
}
