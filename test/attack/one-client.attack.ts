/**
 * What one client may cost the others: under every attack of the table, in containers of three sizes, the server lives
 * within its memory, responds to ordinary creates, and loses no plant.
 *
 * ATTACK_ONLY selects attacks by a part of their name, ATTACK_MIB says how large the containers are (128,256,512), and
 * ATTACK_SECONDS how long each attack lasts (3).
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ERRORS } from "../../src/core/errors.ts";
import { createToken } from "../../src/index.ts";
import { statusField } from "../kernel/machine.ts";
import { plant, Trial } from "../kernel/trial.ts";
import { sendRaw } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import type { RawAnswer } from "../support/raw.ts";
import { freePort } from "../support/service.ts";
import { writeLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { ATTACKS, type Attack, attack, LONG_ID, LONG_NAME, SHORT_PLANTS } from "./attacks.ts";
import { makeContainer } from "./container.ts";

const { ATTACK_ONLY: only = "", ATTACK_MIB: sizes = "128,256,512" } = process.env;
const { ATTACK_SECONDS: seconds = "3" } = process.env;
/** The share of a container that docs/deploy/Dockerfile gives to the heap. */
const HEAP_SHARE = 0.4;
const CREATE_EVERY_MS = 20;
const LISTS = 8;

/** A server with plants to read. */
async function startTarget(t: TestContext, mib: number) {
  const folder = makeFolder(t);
  const short = Array.from({ length: SHORT_PLANTS }, (_, id) => `{"id":${id},"name":"Fern"}\n`);
  writeLog(folder, `${short.join("")}${plant(LONG_ID, LONG_NAME)}\n`);
  const writer = await createToken(folder, { name: "attacker-w", scopes: ["write"] });
  const reader = await createToken(folder, { name: "attacker-r", scopes: ["read"] });
  const adminPort = await freePort();
  const trial = new Trial(t, folder);
  const heap = `--max-old-space-size=${Math.round(HEAP_SHARE * mib)}`;
  const container = makeContainer(t, mib);
  trial.under = { wrapper: container ?? [], env: { NODE_OPTIONS: heap } };
  await trial.start(["--admin", `127.0.0.1:${adminPort}`, "--log", "off"]);
  const target = { port: trial.server.port, adminPort, writer, reader };
  const ask = async (token: string, parts: RequestParts) => {
    const [response] = await sendRaw(trial.server.port, encodeRequest({ token }, parts), 1);
    return response as RawAnswer;
  };
  return { trial, target, ask, isContained: container !== undefined };
}

async function carryOut(t: TestContext, row: Attack, mib: number): Promise<void> {
  const { trial, target, ask, isContained } = await startTarget(t, mib);
  const create = async (id: number) => {
    const { process, stderr } = trial.server;
    const response = await ask(trial.token, { body: plant(id) }).catch((cause) => {
      const how = `${process.exitCode ?? process.signalCode ?? "it lives"}: ${stderr().slice(-2000)}`;
      throw new Error(`expected a response, got none; the server's end: ${how}`, { cause });
    });
    return trial.account(plant(id), response);
  };
  const stop = attack(row, target);
  t.after(stop);
  const end = performance.now() + 1000 * Number(seconds);
  for (let id = 7_000_000_000; performance.now() < end; id++) {
    const outcome = await create(id); // on a machine of one core also 503, to be sent again
    assert.ok([200, ERRORS.overloaded, ERRORS.tokens_unreadable].includes(outcome), `${outcome}`);
    await sleep(CREATE_EVERY_MS);
  }
  stop();
  const peakMib = Number.parseInt(statusField(trial.pid, "VmHWM"), 10) / 1024;
  t.diagnostic(`peak ${peakMib.toFixed(0)} MiB, ${trial.acknowledged.size} creates`);
  assert.equal(trial.server.process.exitCode, null, "the server lives");
  // Without a container, no kernel ends the server that takes too much.
  assert.ok(isContained || peakMib <= mib, `${peakMib} MiB`);
  await until("a create is stored", async () => (await create(8_000_000_000)) === 200);
  await until("reads of the attacker succeed: it holds nothing any more", async () => {
    const list = { method: "GET", target: "/plants?limit=1000" };
    const responses = Array.from({ length: LISTS }, () => ask(target.reader, list));
    return (await Promise.all(responses)).every(({ status }) => status === 200);
  });
  await trial.end("SIGKILL");
  trial.assertKept();
}

for (const mib of sizes.split(",").map(Number)) {
  for (const row of ATTACKS.filter(({ name }) => name.includes(only))) {
    const says = `in ${mib} MiB others are served while ${row.by} tries: ${row.name}`;
    test(says, TIMEOUT, (t) => carryOut(t, row, mib));
  }
}
