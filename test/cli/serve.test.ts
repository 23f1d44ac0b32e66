import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { chmodSync, closeSync, constants, openSync, rmSync, writeSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { VERSION } from "../../src/cli/command.ts";
import { createToken } from "../../src/index.ts";
import { runCli, startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { type LogLine, logLinesOf, messagesOf } from "../support/messages.ts";
import { postPlant } from "../support/post.ts";
import { PROGRAM } from "../support/program.ts";
import { errorNumber } from "../support/service.ts";
import { logPath, readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const FERN = '{"id":1,"name":"Fern"}';

/** So long that a test which waits for one of these limits fails by its own timeout. */
const PATIENT = [
  "--drain-timeout-ms=600000",
  "--request-timeout-ms=600000",
  "--keep-alive-timeout-ms=600000",
];

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  test(`${signal}, right after the ready record, ends with status 0, and there was no other output`, async (t) => {
    const server = await startServer(t, ["--data", makeFolder(t), "--log", "off"]);
    assert.notEqual(server.port, 0);
    const end = await server.stop(signal);
    const { stdout, ...rest } = end;
    assert.deepEqual(rest, { status: 0, signal: null, stderr: "" });
    const [{ time, pid, ...ready } = {} as LogLine, ...others] = logLinesOf(stdout);
    const url = `http://127.0.0.1:${server.port}`;
    const message = `listening on ${url}, 0 plants stored`;
    const members = { url, admin: null, plants: 0, version: VERSION };
    assert.deepEqual(ready, { level: "info", event: "listening", message, ...members });
    assert.deepEqual([new Date(time).toISOString(), pid, others], [time, server.process.pid, []]);
  });
}

test("SIGUSR1 opens no debugger of a server, which goes on", async (t) => {
  const env = { NODE_OPTIONS: "--inspect-port=0" }; // so that tests can run at once
  const server = await startServer(t, ["--data", makeFolder(t), "--log", "off"], { env });
  for (let round = 0; round < 3; round++) {
    server.process.kill("SIGUSR1");
    assert.equal((await postPlant(server.url, "", FERN)).status, 401);
  }
  const { status, stderr } = await server.stop();
  assert.deepEqual([status, stderr], [0, ""]); // Node would name its debugger
});

test("serve names the folder that it made, which may be a typing error", async (t) => {
  const data = join(makeFolder(t), "dtaa");
  const start = async () => {
    const { stderr } = await (await startServer(t, ["--data", data])).stop();
    return logLinesOf(stderr).filter(({ event }) => event === "message");
  };
  const first = await start();
  const second = await start();
  assert.deepEqual([first.length, first[0]?.level, second], [1, "info", []]);
  assert.ok(`${first[0]?.message}`.includes(`made the folder "${data}"`));
});

test("while a server runs, get and list work, and a second serve refuses and names the first", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder]);
  assert.equal((await postPlant(server.url, token, FERN)).status, 200);

  const args = ["--data", folder];
  const [get, list, second] = await Promise.all([
    runCli(["get", "1", ...args]),
    runCli(["export", ...args]),
    runCli(["serve", "--port", "0", ...args]),
  ]);
  const printed = { status: 0, signal: null, stdout: `${FERN}\n`, stderr: "" };
  assert.deepEqual([get, list], [printed, printed]);
  assert.deepEqual([second.status, second.stdout], [1, ""]);
  const [message = "", ...others] = messagesOf(second.stderr);
  assert.match(message, new RegExp(`\\bserve\\b.*\\b${server.process.pid}\\b`));
  assert.deepEqual(others, []);

  assert.equal((await postPlant(server.url, token, '{"id":2,"name":"Moss"}')).status, 200);
});

test("tokens created and revoked while a server runs are in force soon, without a restart", async (t) => {
  const folder = makeFolder(t);
  const server = await startServer(t, ["--data", folder]);
  const answers = async (token: string, status: number) =>
    (await postPlant(server.url, token, FERN)).status === status;

  const created = await runCli(["token", "create", "gardener", "--data", folder]);
  const token = created.stdout.trim();
  await until("the new token is accepted", () => answers(token, 200));

  assert.equal((await runCli(["token", "revoke", "gardener", "--data", folder])).status, 0);
  await until("the revoked token is refused", () => answers(token, 401));
});

test("after its log is deleted a server acknowledges nothing: 503, then status 1", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder]);
  const ended = once(server.process, "close");
  rmSync(logPath(folder));
  const answer = await postPlant(server.url, token, FERN);
  assert.deepEqual([answer.status, errorNumber(answer)], [503, 50303]);
  assert.deepEqual(await ended, [1, null]);
  assert.ok(server.stderr().includes(logPath(folder)), server.stderr());
});

test("a server whose messages cannot be written still serves", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  chmodSync(folder, 0o755); // causes a warning
  const wrapper = ["sh", "-c", 'exec "$@" 2>/dev/full', "sh"];
  const server = await startServer(t, ["--data", folder], { wrapper });
  assert.equal((await postPlant(server.url, token, FERN)).status, 200);
  assert.equal((await server.stop()).status, 0);
});

/** A full pipe, whose reader does not read. */
function openFullPipe(t: TestContext): number {
  const path = join(makeFolder(t), "pipe");
  assert.equal(spawnSync("mkfifo", [path]).status, 0);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  t.after(() => closeSync(fd));
  const fill = () => {
    for (;;) writeSync(fd, "x".repeat(4096));
  };
  assert.throws(fill, { code: "EAGAIN" });
  return fd;
}

/** Starts a server whose standard output nobody reads; its log shows when it is ready. */
async function startUnread(t: TestContext, folder: string, stdout: "pipe" | number) {
  const args = [PROGRAM, "serve", "--port", "0", "--data", folder];
  const child = spawn(process.execPath, args, { stdio: ["ignore", stdout, "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  child.stdout?.destroy();
  let stderr = "";
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const listening = /"event":"listening".*"url":"([^"]+)"/;
  await until("the log says that it is ready", () => listening.test(stderr));
  const ended = once(child, "close");
  return { child, ended, url: listening.exec(stderr)?.[1] ?? "", stderr: () => stderr };
}

/** The server warns if its ready line is refused, but not while the line waits for its reader. */
const UNREAD: readonly [
  reader: string,
  open: (t: TestContext) => "pipe" | number,
  warnings: number,
][] = [
  ["has gone", () => "pipe", 1],
  ["has stopped", openFullPipe, 0],
];

for (const [reader, open, warnings] of UNREAD) {
  test(
    `a server stops at the first signal if the reader of its ready line ${reader}`,
    TIMEOUT,
    async (t) => {
      const { child, ended, stderr } = await startUnread(t, makeFolder(t), open(t));
      child.kill("SIGTERM");
      assert.deepEqual(await ended, [0, null]);
      assert.equal(messagesOf(stderr()).length, warnings);
    },
  );

  test(
    `a server ends with status 1 when its store fails, also if the reader of its ready line ${reader}`,
    TIMEOUT,
    async (t) => {
      const folder = makeFolder(t);
      const token = await createToken(folder, { name: "gardener" });
      const { ended, url } = await startUnread(t, folder, open(t));
      rmSync(logPath(folder));
      assert.equal((await postPlant(url, token, FERN)).status, 503);
      assert.deepEqual(await ended, [1, null]);
    },
  );
}

describe("a stop waits for requests in flight and for nothing else", () => {
  test("idle connections after an answer do not delay it", TIMEOUT, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const server = await startServer(t, ["--data", folder, ...PATIENT]);
    const clients = await Promise.all([1, 2, 3].map(() => Client.connect(server.port)));
    for (const client of clients) {
      await client.send(encodeRequest({ token }, { body: FERN }));
      assert.equal((await client.next()).status, 200);
    }
    assert.equal((await server.stop()).status, 0);
    for (const client of clients) assert.deepEqual(await client.rest(), []);
  });

  test("connections that never sent anything do not delay it", TIMEOUT, async (t) => {
    const server = await startServer(t, ["--data", makeFolder(t), ...PATIENT]);
    const socket = net.connect(server.port, "127.0.0.1");
    t.after(() => socket.destroy());
    await once(socket, "connect");
    // After an answer on a later connection the server has seen the silent one.
    assert.equal((await postPlant(server.url, "", FERN)).status, 401);
    assert.equal((await server.stop()).status, 0);
  });

  test("a request whose body comes after the signal is stored and answered", TIMEOUT, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const server = await startServer(t, ["--data", folder, ...PATIENT]);
    const held = await holdRequest(server.port, token);
    const end = server.stop("SIGINT");
    await until("it accepts no more", () => isRefused(server.port));
    await held.send(FERN.slice(-1));
    const answer = await held.next();
    assert.deepEqual([answer.status, answer.headers.get("connection")], [200, "close"]);
    assert.equal((await end).status, 0);
    assert.equal(readLog(folder), `${FERN}\n`);
  });

  test("a second SIGTERM ends it at once, with a request in flight", TIMEOUT, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const server = await startServer(t, ["--data", folder, ...PATIENT]);
    const held = await holdRequest(server.port, token);
    const end = server.stop();
    await until("it accepts no more", () => isRefused(server.port));
    assert.equal(held.isClosed, false);
    void server.stop();
    assert.deepEqual([(await end).status, (await end).signal], [null, "SIGTERM"]);
    await until("the connection is cut", () => held.isClosed);
    assert.equal(readLog(folder), "");
  });

  test("the deadline ends it with status 0, with a request in flight", TIMEOUT, async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const args = ["--data", folder, ...PATIENT, "--drain-timeout-ms=300"];
    const server = await startServer(t, args);
    const held = await holdRequest(server.port, token);
    const end = await server.stop();
    assert.equal(end.status, 0);
    await until("the connection is cut", () => held.isClosed);
    const requests = logLinesOf(end.stderr).filter(({ event }) => event === "request");
    assert.deepEqual(
      requests.map(({ status, cut, token }) => [status, cut, token]),
      [[0, true, "gardener"]],
    );
  });
});

/** A create that the server has begun to read: only its last byte is not sent yet. */
async function holdRequest(port: number, token: string): Promise<Client> {
  const client = await Client.connect(port);
  const request = encodeRequest({ token }, { headers: { Expect: "100-continue" }, body: FERN });
  const bodyStart = request.length - FERN.length;
  await client.send(request.subarray(0, bodyStart));
  // From now on the signal is sure to find the request in flight.
  assert.equal((await client.next()).status, 100);
  await client.send(request.subarray(bodyStart, -1));
  return client;
}

async function isRefused(port: number): Promise<boolean> {
  try {
    (await Client.connect(port)).destroy();
    return false;
  } catch (error) {
    // A reset: the connection was in the queue when that was closed, so ask again.
    const { code } = error as NodeJS.ErrnoException;
    assert.match(code ?? "", /^ECONN(REFUSED|RESET)$/);
    return code === "ECONNREFUSED";
  }
}
