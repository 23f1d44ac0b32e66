import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { logLinesOf, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { PROGRAM } from "../support/program.ts";
import { freePort, postPlant } from "../support/service.ts";
import { until } from "../support/watch.ts";

const FERN = '{"id":1,"name":"Fern of a secret garden"}';

test("the log has one JSON record per line for every event and request", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder]);
  await postPlant(server.url, token, FERN);
  await postPlant(server.url, `${token.slice(0, -1)}?`, FERN);
  const { stderr } = await server.stop();
  const lines = logLinesOf(stderr);
  assert.deepEqual(
    lines.map(({ event, level }) => [event, level].join()),
    ["listening,info", "request,info", "request,info", "draining,info", "stopped,info"],
  );
  const [listening, created, refused] = lines;
  assert.deepEqual([listening?.url, listening?.plants], [server.url, 0]);
  assert.deepEqual(
    [created?.method, created?.path, created?.status, created?.token, created?.bytes],
    ["POST", "/plants", 200, "gardener", FERN.length],
  );
  assert.deepEqual([refused?.status, refused?.error, refused?.token], [401, 40102, null]);
  for (const line of lines) assert.match(line.time, /^[0-9-]{10}T[0-9:]{8}\.[0-9]{3}Z$/);
  assert.doesNotMatch(stderr, /pst_[\w-]{8}|secret garden/); // neither a token nor a body
});

test("the log names the client that a trusted proxy names, and no other", async (t) => {
  const proxies = ["--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.1"];
  for (const [args, client] of [
    [[], "127.0.0.1"],
    [proxies, "192.0.2.1"],
  ] as const) {
    const server = await startServer(t, ["--data", makeFolder(t), ...args]);
    await fetch(server.url, { headers: { "X-Forwarded-For": "6.6.6.6, 192.0.2.1, 10.0.0.9" } });
    const { stderr } = await server.stop();
    const request = logLinesOf(stderr).find(({ event }) => event === "request");
    assert.equal(request?.client, client);
  }
});

test("a log whose disk is full, or whose reader has gone, ends no server", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  for (const output of ["2>/dev/full", "2> >(:)"]) {
    const port = await freePort();
    const words = [process.execPath, PROGRAM, "serve", "--port", `${port}`, "--data", folder];
    const child = spawn("bash", ["-c", `exec "$@" ${output}`, "sh", ...words]);
    t.after(() => child.kill("SIGKILL"));
    const url = `http://127.0.0.1:${port}`;
    const post = () => postPlant(url, token, FERN).catch(() => undefined);
    await until("it serves", async () => (await post())?.status === 200);
    child.kill("SIGTERM");
    assert.deepEqual(await once(child, "exit"), [0, null]);
  }
});

test("a stopped reader of the log delays no response, and later reads how many lines were dropped", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder]);
  server.process.stderr?.pause();
  const client = await Client.connect(server.port);
  t.after(() => client.destroy());
  // About 4 MB of lines: more than a pipe, its reader's buffer and the limit hold together.
  const request = encodeRequest({ token }, { target: `/${"x".repeat(1000)}` });
  for (let at = 0; at < 3000; at += 15) {
    await client.send(Buffer.concat(Array(15).fill(request)));
    for (let each = 0; each < 15; each++) assert.equal((await client.next()).status, 404);
  }
  assert.equal((await postPlant(server.url, token, FERN)).status, 200);
  server.process.stderr?.resume();
  await until("a later line says it", async () => {
    await postPlant(server.url, token, FERN);
    return server.stderr().includes('"event":"log-dropped"');
  });
  const end = await server.stop();
  assert.equal(end.status, 0);
  const lines = logLinesOf(end.stderr);
  const lost = lines.find(({ event }) => event === "log-dropped")?.lines;
  assert.ok(Number(lost) > 0);
});
