/** Bytes that are not requests, and mutated requests. */
import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import { encodeRequest } from "../support/contract.ts";
import { parseAnswers } from "../support/raw.ts";
import { errorNumber } from "../support/service.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { openSockets } from "./machine.ts";
import { plant, Trial } from "./trial.ts";

const FLOODS = 400;
const AT_A_TIME = 20;

/** Random numbers that are the same in every run, so that a failure can be repeated (mulberry32). */
function createRandom(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}

/** Noise, or a request with a few changed bytes, or two requests with bytes removed between them. */
function makeGarbage(random: (below: number) => number, request: Buffer): Buffer {
  switch (random(3)) {
    case 0:
      return Buffer.from(Array.from({ length: 1 + random(20_000) }, () => random(256)));
    case 1: {
      const changed = Buffer.from(request);
      for (let count = 1 + random(8); count > 0; count--) {
        changed[random(changed.length)] = random(256);
      }
      return changed;
    }
    default: {
      const twice = Buffer.concat([request, request]);
      const from = random(twice.length);
      return Buffer.concat([twice.subarray(0, from), twice.subarray(from + 1 + random(100))]);
    }
  }
}

/** Sends all bytes, closes its side, and returns everything that comes back. */
function exchange(port: number, bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve) => {
    const received: Buffer[] = [];
    const socket = net.connect({ port, host: "127.0.0.1" }, () => socket.end(bytes));
    socket.on("data", (chunk: Buffer) => received.push(chunk));
    socket.on("error", () => {}); // the server may close while it sends
    socket.on("close", () => resolve(Buffer.concat(received)));
  });
}

test(
  `${FLOODS} connections of garbage end in an error body or a close, and other clients are served`,
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t, { args: ["--header-timeout-ms=2000"] });
    const before = openSockets(trial.pid);
    const random = createRandom(20_260_117);
    let answers = 0;
    for (let at = 0; at < FLOODS; at += AT_A_TIME) {
      const floods = Array.from({ length: AT_A_TIME }, (_, n) => {
        const request = encodeRequest(trial, { body: plant(at + n + 1, "Garbage") });
        return exchange(trial.server.port, makeGarbage(random, request));
      });
      for (const received of [...(await Promise.all(floods))]) {
        const parsed = parseAnswers(received);
        answers += parsed.length;
        for (const answer of parsed) {
          if (answer.status !== 200) errorNumber(answer); // its body is exactly an Error
          assert.ok(answer.status < 500, answer.text);
        }
      }
      assert.equal(await trial.create(1_000_000 + at), 200);
    }
    assert.ok(answers > FLOODS / 2, `${answers} answers`);
    await until("none of them is left", () => openSockets(trial.pid) <= before);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });

    // Some of the garbage was valid. Every line is a plant, and those of the ordinary client are there.
    const ids = readLog(trial.folder)
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line).id);
    assert.equal(new Set(ids).size, ids.length);
    for (const line of trial.acknowledged) assert.ok(ids.includes(JSON.parse(line).id), line);
  },
);
