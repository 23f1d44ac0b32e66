/** A server as a process: how it starts, what it prints, and how it ends. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { createToken, listTokens } from "../../src/index.ts";
import {
  logLinesOf,
  messagesOf,
  NEEDS_TERMINAL,
  runCli,
  startServer,
  terminalArgs,
} from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant, send } from "../support/service.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const FERN = '{"id":1,"name":"Fern"}';

/** So long that a test which waits for one of these limits fails by its own timeout. */
const PATIENT = [
  "--drain-timeout-ms=600000",
  "--request-timeout-ms=600000",
  "--keep-alive-timeout-ms=600000",
];

/** A folder with one token. */
async function makeStore(t: TestContext): Promise<{ folder: string; token: string }> {
  const folder = makeFolder(t);
  return { folder, token: await createToken(folder, { name: "gardener" }) };
}

test("with --log off a server prints one line, and SIGTERM ends it with status 0", async (t) => {
  const server = await startServer(t, ["--data", makeFolder(t), "--log", "off"]);
  const stderr = `plant-store: listening on http://127.0.0.1:${server.port}, 0 plants stored\n`;
  assert.deepEqual(await server.stop(), { status: 0, signal: null, stdout: "", stderr });
});

test("SIGUSR1 opens no debugger, and the server goes on", async (t) => {
  const env = { NODE_OPTIONS: "--inspect-port=0" }; // so that tests can run at once
  const server = await startServer(t, ["--data", makeFolder(t)], { env });
  server.process.kill("SIGUSR1");
  assert.equal((await postPlant(server.url, "", FERN)).status, 401);
  const { status, stderr } = await server.stop();
  assert.equal(status, 0);
  assert.doesNotMatch(stderr, /[Dd]ebugger/);
});

test("a start names a new folder, and variables that it does not know, unless Kubernetes sets them", async (t) => {
  const env = {
    PLANT_STORE_PORT: "tcp://10.0.0.7:8080",
    PLANT_STORE_PORT_8080_TCP_ADDR: "10.0.0.7",
    PLANT_STORE_SERVICE_PORT_HTTP: "8080",
    PLANT_STORE_DATA_DIR: "/secret",
    PLANT_STORE_LOGLEVEL: "x",
  };
  const data = join(makeFolder(t), "dtaa");
  const server = await startServer(t, ["--data", data], { env });
  const lines = logLinesOf((await server.stop()).stderr);
  const [warning, folder, listening] = lines.map(({ message }) => `${message}`);
  assert.match(`${warning}`, /^ignoring PLANT_STORE_DATA_DIR, PLANT_STORE_LOGLEVEL; see /);
  assert.equal(folder, `the folder "${data}" is new`);
  assert.match(`${listening}`, /^listening on /);
});

test("options come from variables, and --base-path comes before /plants", async (t) => {
  const { folder, token } = await makeStore(t);
  const origin = "https://a.example";
  const env = {
    PLANT_STORE_DATA: folder,
    PLANT_STORE_BASE_PATH: "/garden/",
    PLANT_STORE_CORS_ORIGIN: `${origin},https://b.example:8443`,
  };
  const server = await startServer(t, [], { env });
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:[1-9][0-9]*\/garden$/);
  assert.equal((await postPlant(server.url, token, FERN)).status, 200);
  assert.equal((await postPlant(new URL(server.url).origin, token, FERN)).status, 404);
  const { headers } = await send(`${server.url}/plants`, { headers: { Origin: origin } });
  assert.equal(headers.get("access-control-allow-origin"), origin);
});

test("while a server runs, other commands work, and a second server names the first", async (t) => {
  const { folder, token } = await makeStore(t);
  const server = await startServer(t, ["--data", folder]);
  assert.equal((await postPlant(server.url, token, FERN)).status, 200);
  const data = ["--data", folder];
  const [copies, restored] = [makeFolder(t), join(makeFolder(t), "restored")];
  const [get, backup, second] = await Promise.all([
    runCli(["get", "1", ...data]),
    runCli(["backup", "--into", copies, ...data]),
    runCli(["serve", "--port", `${server.port}`, ...data]), // the lock is reported, not the port
  ]);
  assert.equal(get.stdout, `${FERN}\n`);
  const [name = ""] = readdirSync(copies);
  assert.equal(backup.stdout, `backed up 1 plant, 23 bytes, to "${join(copies, name)}"\n`);
  const end = await runCli(["restore", join(copies, name), "--data", restored]);
  assert.equal(end.stdout, `restored 1 plant, 23 bytes, into "${restored}"\n`);
  assert.equal(readLog(restored), readLog(folder));
  assert.equal(second.status, 1);
  const names = new RegExp(`\\bserve\\b.*\\b${server.process.pid}\\b`);
  assert.match(messagesOf(second.stderr).join(), names);
  let made = "";
  for (const name of ["cook", "baker", "gardener-2"]) {
    made = (await runCli(["token", "create", name, ...data])).stdout.trim();
    assert.equal((await postPlant(server.url, made, FERN)).status, 200, "it is known at once");
  }
  assert.equal((await runCli(["token", "revoke", "gardener-2", ...data])).status, 0);
  await until("the revoked token is refused", async () => {
    return (await postPlant(server.url, made, FERN)).status === 401;
  });
});

for (const option of ["--port", "--admin"]) {
  test(`a busy ${option} ends the start with status 1, and creates no first token`, async (t) => {
    const taken = net.createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    t.after(() => taken.close());
    const { port } = taken.address() as AddressInfo;
    const folder = makeFolder(t);
    const args = ["serve", "--port", "0", option, `${port}`, "--first-token", "--data", folder];
    const end = await runCli(args);
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    const [message = ""] = messagesOf(end.stderr);
    assert.match(message, new RegExp(`address already in use .*:${port}; see .*${option}$`));
    assert.equal(existsSync(join(folder, "tokens.jsonl")), false);
  });
}

test("--first-token prints a token to a program, once, and never into the log", async (t) => {
  const folder = join(makeFolder(t), "data");
  const args = ["--first-token", "--data", folder];
  const server = await startServer(t, args);
  await until("it is printed", () => server.stdout().endsWith("\n"));
  const token = server.stdout().trim();
  assert.equal((await postPlant(server.url, token, FERN)).status, 200);
  const first = await server.stop();
  const second = await (await startServer(t, args)).stop();
  assert.deepEqual([first.stdout, second.stdout], [`${token}\n`, ""]);
  assert.doesNotMatch(first.stderr + second.stderr, /pst_/);
  assert.deepEqual(
    (await listTokens(folder)).map(({ name }) => name),
    ["first-token"],
  );
});

test("at a terminal --first-token prints curl lines that work", NEEDS_TERMINAL, async (t) => {
  const folder = makeFolder(t);
  // All of these are allowed in a path (RFC 3986 section 3.3).
  const options = ["--base-path", "/it's;$(id)&*!/garden", "--first-token", "--data", folder];
  const child = spawn("script", terminalArgs(["serve", "--port", "0", ...options]));
  t.after(() => child.kill("SIGKILL"));
  let shown = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    shown += text.replaceAll("\r\n", "\n");
  });
  const readLines = () => shown.match(/(?<=^ *)curl .*(?=\n)/gm) ?? [];
  await until("it is ready", () => readLines().length === 2);
  const [create = "", list = ""] = readLines();
  const answer = '{"name":"Monstera deliciosa","tag":"tropical"}';
  const run = (line: string) =>
    execFileSync("sh", ["-c", line], { encoding: "utf8", stdio: "pipe" });
  assert.equal(run(create), `${answer}\n`);
  assert.equal(run(list), `[{"id":1,${answer.slice(1)}]\n`);
});

test(
  "a create whose body comes after the signal is stored, and gets its response",
  TIMEOUT,
  async (t) => {
    const { folder, token } = await makeStore(t);
    const server = await startServer(t, ["--data", folder, ...PATIENT]);
    const held = await holdRequest(server.port, token);
    const end = server.stop("SIGINT");
    await until("it accepts no more", () => isRefused(server.port));
    await held.send(FERN.slice(-1));
    const answer = await held.next();
    assert.deepEqual([answer.status, answer.headers.get("connection")], [200, "close"]);
    assert.equal((await end).status, 0);
    assert.equal(readLog(folder), `${FERN}\n`);
  },
);

test("a second SIGTERM ends it at once, with a request in flight", TIMEOUT, async (t) => {
  const { folder, token } = await makeStore(t);
  const server = await startServer(t, ["--data", folder, ...PATIENT]);
  const held = await holdRequest(server.port, token);
  const end = server.stop();
  await until("it accepts no more", () => isRefused(server.port));
  assert.equal(held.isClosed, false);
  void server.stop();
  assert.deepEqual([(await end).status, (await end).signal], [null, "SIGTERM"]);
  assert.equal(readLog(folder), "");
});

test("the deadline ends it with 0, and the request is logged as cut", TIMEOUT, async (t) => {
  const { folder, token } = await makeStore(t);
  const server = await startServer(t, ["--data", folder, ...PATIENT, "--drain-timeout-ms=300"]);
  const held = await holdRequest(server.port, token);
  const end = await server.stop();
  assert.equal(end.status, 0);
  await until("the connection is cut", () => held.isClosed);
  const [request, ...others] = logLinesOf(end.stderr).filter(({ event }) => event === "request");
  assert.deepEqual([request?.status, request?.cut, request?.token], [0, true, "gardener"]);
  assert.deepEqual(others, []);
});

test(
  "SIGTERM under a load of 64 connections: every request gets a response or is cleanly refused",
  TIMEOUT,
  async (t) => {
    const { folder, token } = await makeStore(t);
    const server = await startServer(t, ["--data", folder, ...PATIENT]);
    const stored: string[] = [];
    const lost: string[] = [];
    let isSignalled = false;
    let next = 0;
    const createUntilClosed = async (): Promise<void> => {
      const client = await Client.connect(server.port);
      for (;;) {
        const [line, wasSentBefore] = [`{"id":${++next},"name":"Fern"}`, !isSignalled];
        const response = await client
          .send(encodeRequest({ token }, { body: line }))
          .then(() => client.next())
          .catch((error) => void (wasSentBefore && error.code && lost.push(line))); // a reset
        if (response === undefined) return;
        assert.equal(response.status, 200);
        stored.push(line);
        if (response.headers.get("connection") === "close") return;
      }
    };
    const load = Promise.all(Array.from({ length: 64 }, createUntilClosed));
    await until("the load is under way", () => stored.length >= 640);
    isSignalled = true;
    assert.equal((await server.stop()).status, 0);
    await load;
    const lines = readLog(folder).trimEnd().split("\n");
    assert.equal(new Set(lines).size, lines.length, "no line is there twice");
    const missing = stored.filter((line) => !lines.includes(line));
    assert.deepEqual([missing, lost], [[], []]);
  },
);

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
