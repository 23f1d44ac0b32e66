/**
 * Whether real clients see the refusal of a body that they are still sending: 413 for one that is
 * too long, 401 for a bad token. HTTP lets a server answer before it has read the request, and
 * clients handle that differently. What each client saw is printed.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import net from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { runToEnd } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { until } from "../support/watch.ts";

const HERE = fileURLToPath(new URL(".", import.meta.url));
const MIB = 1024 * 1024;
/** The share of requests of one kind whose answer the client must see. */
const SEEN_MIN = 0.95;
const SLOW_BYTES_PER_SECOND = 200_000;
const PYTHON = "/usr/bin/python3"; // Debian's, which has requests

interface Sending {
  readonly url: string;
  readonly token: string;
  readonly bytes: number;
  readonly count: number;
  /** How many requests are sent at a time. */
  readonly parallel: number;
  /** The path of a file with this many bytes. */
  readonly file: string;
}

interface Client {
  readonly name: string;
  /** The program that must be installed. */
  readonly needs: readonly string[];
  /** Sends requests; resolves with the status of each, or with the reason why there is none. */
  readonly send: (sending: Sending) => Promise<string[]>;
}

/** One process for all requests, which prints a line for each. */
function program(name: string, needs: string, words: readonly string[]): Client {
  const send = async ({ url, token, bytes, count, parallel }: Sending) => {
    const args = [url, token, bytes, count, parallel].map(String);
    const { stdout, stderr } = await runToEnd([needs, ...words, ...args]);
    const lines = stdout.split("\n").slice(0, -1);
    return lines.length === count ? lines : [...lines, stderr.slice(-200)];
  };
  return { name, needs: [needs], send };
}

/** A process for each request; the status is what `pattern` finds last in what it prints. */
function command(
  name: string,
  needs: string,
  pattern: RegExp,
  wordsFor: (sending: Sending) => readonly string[],
): Client {
  const sendOne = async (sending: Sending) => {
    const { stdout, stderr } = await runToEnd([needs, ...wordsFor(sending)]);
    const printed = stdout + stderr;
    return (
      [...printed.matchAll(pattern)].at(-1)?.[1] ?? printed.replaceAll(/\s+/g, " ").slice(-100)
    );
  };
  const send = async (sending: Sending) => {
    const outcomes: string[] = [];
    while (outcomes.length < sending.count) {
      const batch = Array.from({ length: sending.parallel }, () => sendOne(sending));
      outcomes.push(...(await Promise.all(batch)));
    }
    return outcomes;
  };
  return { name, needs: [needs], send };
}

const nodeOf = (name: string) => path.join(HERE, "node_modules", name, "bin/node");
const fetchProgram = path.join(HERE, "clients/fetch.mjs");
const pythonProgram = path.join(HERE, "clients/posts.py");
const headersOf = ({ token }: Sending) => [
  `Authorization: Bearer ${token}`,
  "Content-Type: application/json",
];

function curl(name: string, others: readonly string[]): Client {
  return command(name, "curl", /status=([1-9]\d\d)/g, (sending) => [
    ...["-sS", "-o", "/dev/null", "-w", "status=%{http_code}", ...others],
    ...headersOf(sending).flatMap((header) => ["-H", header]),
    ...["--data-binary", `@${sending.file}`, sending.url],
  ]);
}

/** Reads nothing before it has sent everything, and opens a connection for each request. */
const HTTP_CLIENT = program("Python's http.client", PYTHON, [pythonProgram, "http.client"]);

const CLIENTS: readonly Client[] = [
  program("fetch of Node 20", nodeOf("node20"), [fetchProgram]),
  program("fetch of Node 26", nodeOf("node26"), [fetchProgram]),
  program("Java's HttpClient", "java", [path.join(HERE, "clients/HttpClientPosts.java")]),
  HTTP_CLIENT,
  program("Python's requests", PYTHON, [pythonProgram, "requests"]),
  curl("curl", []),
  curl("curl that does not ask first", ["-H", "Expect:"]),
  command("wget", "wget", /HTTP\/1\.1 (\d\d\d)/g, (sending) => [
    ...["-O", "/dev/null", "--server-response", "--tries=1"],
    ...headersOf(sending).map((header) => `--header=${header}`),
    ...[`--post-file=${sending.file}`, sending.url],
  ]),
];

interface Case {
  readonly what: string;
  readonly bytes: number;
  readonly isSlow?: boolean;
  readonly hasBadToken?: boolean;
  readonly count: number;
  readonly parallel: number;
}

/** All slow requests are sent at the same time; the rate applies to each of them. */
const CASES: readonly Case[] = [
  { what: "1.1 MiB", bytes: Math.floor(1.1 * MIB), count: 100, parallel: 1 },
  { what: "6 MiB", bytes: 6 * MIB, count: 50, parallel: 1 },
  { what: "20 MiB", bytes: 20 * MIB, count: 40, parallel: 1 },
  { what: "1.1 MiB at 200 kB/s", bytes: 1.1 * MIB, isSlow: true, count: 40, parallel: 40 },
  { what: "4 MiB at 200 kB/s", bytes: 4 * MIB, isSlow: true, count: 40, parallel: 40 },
  {
    what: "150 KiB at 200 kB/s, bad token",
    bytes: 150 * 1024,
    isSlow: true,
    hasBadToken: true,
    count: 100,
    parallel: 50,
  },
];

/** A server with a data directory, and its address for each speed. */
async function settle(t: TestContext) {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "field" });
  const server = await startServer(t, ["--data", folder]);
  return { token, port: server.port };
}

/** Opens a port that leads slowly to another port, until the test ends. */
async function startUplink(t: TestContext, port: number): Promise<number> {
  const args = [path.join(HERE, "uplink.py"), port, SLOW_BYTES_PER_SECOND].map(String);
  const uplink = spawn(PYTHON, args, { stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => uplink.kill("SIGKILL"));
  const [text] = await once(uplink.stdout, "data");
  return Number(text);
}

function fileOf(t: TestContext, bytes: number): string {
  const file = path.join(makeFolder(t), "body");
  writeFileSync(file, Buffer.alloc(bytes, "x"));
  return file;
}

/** Sends one kind of request, prints what the client saw, and checks it against the required share. */
async function judge(
  t: TestContext,
  client: Client,
  port: number,
  token: string,
  each: Case,
): Promise<void> {
  const bytes = Math.floor(each.bytes);
  const through = each.isSlow ? await startUplink(t, port) : port;
  const outcomes = await client.send({
    url: `http://127.0.0.1:${through}/plants`,
    token: each.hasBadToken ? `pst_${"0".repeat(43)}` : token,
    bytes,
    count: each.count,
    parallel: each.parallel,
    file: fileOf(t, bytes),
  });
  const wanted = each.hasBadToken ? "401" : "413";
  const seen = outcomes.filter((outcome) => outcome === wanted).length;
  const others = [...new Set(outcomes.filter((outcome) => outcome !== wanted))];
  t.diagnostic(`${client.name}, ${each.what}: ${seen} of ${each.count} saw ${wanted}`);
  for (const other of others.slice(0, 3)) t.diagnostic(`  else: ${other}`);
  assert.ok(seen >= SEEN_MIN * each.count, `${seen} of ${each.count} saw ${wanted}: ${others[0]}`);
}

/** The first requirement that is not installed on this machine. */
function findMissing(needs: readonly string[]): string | undefined {
  return needs.find((name) => spawnSync(name, ["--version"]).error !== undefined);
}

function testCases(name: string, client: Client, settleFor: typeof settle): void {
  const missing = findMissing([...client.needs, PYTHON]);
  const skip = missing === undefined ? false : `not on this machine: ${missing}`;
  test(`${name} sees the refusal of a body that it is still sending`, { skip }, async (t) => {
    const { port, token } = await settleFor(t);
    for (const each of CASES) {
      await t.test(each.what, (t) => judge(t, client, port, token, each));
    }
  });
}

for (const client of CLIENTS) testCases(client.name, client, settle);

/** nginx in front of the server, configured so that any user can run it. */
async function settleBehindNginx(t: TestContext, buffering: "on" | "off") {
  const { port: upstream, token } = await settle(t);
  const folder = makeFolder(t);
  const port = await freePort();
  const file = path.join(folder, "nginx.conf");
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  writeFileSync(
    file,
    `daemon off;
    master_process off; # else a worker of root runs as a user who cannot write here
    pid ${folder}/pid;
    error_log ${folder}/error.log;
    events {}
    http {
      access_log off;
      ${temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n")}
      client_max_body_size 0;
      server {
        listen 127.0.0.1:${port};
        location / {
          proxy_pass http://127.0.0.1:${upstream};
          proxy_request_buffering ${buffering};
          ${buffering === "off" ? "proxy_http_version 1.1;" : "# HTTP/1.0, nginx's default"}
        }
      }
    }`,
  );
  const args = ["-c", file, "-p", folder, "-e", `${folder}/error.log`];
  const nginx = spawn("nginx", args, { stdio: "ignore" });
  t.after(() => nginx.kill("SIGTERM"));
  await until("nginx listens", () => canConnect(port));
  return { token, port };
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

for (const buffering of ["on", "off"] as const) {
  const name = `nginx with proxy_request_buffering ${buffering}`;
  const client = { ...HTTP_CLIENT, name, needs: ["nginx", ...HTTP_CLIENT.needs] };
  testCases(name, client, (t) => settleBehindNginx(t, buffering));
}
