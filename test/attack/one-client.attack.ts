/**
 * What one client may cost the others: under every attack of the table, in containers of three sizes, the server lives
 * within its memory, ordinary creates are responded to within 2 s, and no plant is lost.
 *
 * ATTACK_ONLY selects attacks by a part of their name, ATTACK_MIB says how large the containers are (128,256,512), and
 * ATTACK_SECONDS how long each attack lasts (3).
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { createToken } from "../../src/index.ts";
import { statusField } from "../kernel/machine.ts";
import { plant, Trial } from "../kernel/trial.ts";
import { makeCertificate } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { finish } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { writeLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { ATTACKS, type Attack, LONG_ID, LONG_NAME, SHORT_PLANTS } from "./attacks.ts";
import { makeContainer } from "./container.ts";

const { ATTACK_ONLY: only = "", ATTACK_MIB: sizes = "128,256,512" } = process.env;
const { ATTACK_SECONDS: seconds = "3" } = process.env;
/** The share of a container that docs/deploy/Dockerfile gives to the heap. */
const HEAP_SHARE = 0.4;
const RESPONSE_MS_MAX = 2000;
const CREATE_EVERY_MS = 20;
const LISTS = 8;
const ATTACKER = fileURLToPath(new URL("attacker.ts", import.meta.url));
const canPin = availableParallelism() > 1 && spawnSync("taskset", ["-V"]).status === 0;

/** The words that give a program a core of its own, so that the attacker takes no time of the server. */
function pinned(core: 0 | 1): string[] {
  return canPin ? ["taskset", "-c", String(core)] : [];
}

/** A server with plants to read. */
async function startTarget(t: TestContext, { overTls = false }: Attack, mib: number) {
  const folder = makeFolder(t);
  const short = Array.from({ length: SHORT_PLANTS }, (_, id) => `{"id":${id},"name":"Fern"}\n`);
  writeLog(folder, `${short.join("")}${plant(LONG_ID, LONG_NAME)}\n`);
  const writer = await createToken(folder, { name: "attacker-w", scopes: ["write"] });
  const reader = await createToken(folder, { name: "attacker-r", scopes: ["read"] });
  const adminPort = await freePort();
  const tls = overTls ? makeCertificate(t, "victim") : undefined;
  const files = tls && ["--tls-cert", tls.certPath, "--tls-key", tls.keyPath];
  const trial = new Trial(t, folder);
  const heap = `--max-old-space-size=${Math.round(HEAP_SHARE * mib)}`;
  const container = makeContainer(t, mib);
  trial.under = { wrapper: [...(container ?? []), ...pinned(0)], env: { NODE_OPTIONS: heap } };
  await trial.start(["--admin", `127.0.0.1:${adminPort}`, "--log", "off", ...(files ?? [])]);
  const target = { port: trial.server.port, adminPort, writer, reader };
  const ask = async (token: string, parts: RequestParts) => {
    const { port } = trial.server;
    const client = await (tls ? Client.connectSecurely(port, tls.cert) : Client.connect(port));
    await client.send(encodeRequest({ token }, parts));
    const response = await client.next();
    client.destroy();
    return response;
  };
  return { trial, target, ask, isContained: container !== undefined };
}

/** How long the main thread of a process has waited for a core, which other programs of the machine used, in milliseconds. */
function waitedMs(pid: number): number {
  const [, nanoseconds] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanoseconds) / 1e6;
}

async function carryOut(t: TestContext, attack: Attack, mib: number): Promise<void> {
  const { trial, target, ask, isContained } = await startTarget(t, attack, mib);
  const create = async (id: number) => {
    const { process, stderr } = trial.server;
    const response = await ask(trial.token, { body: plant(id) }).catch((cause) => {
      const how = `${process.exitCode ?? process.signalCode ?? "it lives"}: ${stderr().slice(-2000)}`;
      throw new Error(`expected a response, got none; the server's end: ${how}`, { cause });
    });
    return trial.account(plant(id), response);
  };
  const loader = ["--import", import.meta.resolve("tsx")];
  const words = [...pinned(1), process.execPath, ...loader, ATTACKER, attack.name];
  const attacker = spawn(words[0] ?? "", words.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  t.after(() => attacker.kill("SIGKILL"));
  const attacked = finish(attacker);
  attacker.stdin.write(`${JSON.stringify(target)}\n`);
  const times: number[] = [];
  const end = performance.now() + 1000 * Number(seconds);
  for (let id = 7_000_000_000; performance.now() < end; id++) {
    const begun = performance.now() - waitedMs(trial.pid);
    assert.equal(await create(id), 200);
    times.push(performance.now() - waitedMs(trial.pid) - begun);
    await sleep(CREATE_EVERY_MS);
  }
  attacker.stdin.write("end\n");
  t.diagnostic(`slowest create ${Math.max(...times).toFixed(0)} ms of ${times.length}`);
  const peakMib = Number.parseInt(statusField(trial.pid, "VmHWM"), 10) / 1024;
  t.diagnostic(`peak ${peakMib.toFixed(0)} MiB; the attacker: ${(await attacked).stdout.trim()}`);
  assert.equal(trial.server.process.exitCode, null, "the server lives");
  // Without a container, no kernel ends the server that takes too much.
  assert.ok(isContained || peakMib <= mib, `${peakMib} MiB`);
  assert.ok(Math.max(...times) <= RESPONSE_MS_MAX);
  assert.equal(await create(8_000_000_000), 200);
  await until("reads of the attacker succeed: it holds nothing any more", async () => {
    const list = { method: "GET", target: "/plants?limit=1000" };
    const responses = Array.from({ length: LISTS }, () => ask(target.reader, list));
    return (await Promise.all(responses)).every(({ status }) => status === 200);
  });
  await trial.end("SIGKILL");
  trial.assertKept();
}

for (const mib of sizes.split(",").map(Number)) {
  for (const attack of ATTACKS.filter(({ name }) => name.includes(only))) {
    const says = `in ${mib} MiB others are served while ${attack.by} tries: ${attack.name}`;
    test(says, TIMEOUT, (t) => carryOut(t, attack, mib));
  }
}
