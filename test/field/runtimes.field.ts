/**
 * The library, packed and installed, under Deno and Bun, and under Node to check the test itself. A
 * plant that is answered 200 is in the log byte for byte; every other answer is a refusal with a reason.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, type TestContext, test } from "node:test";
import { isSound, verifyLog } from "../../src/tools.ts";
import { Client } from "../support/client.ts";
import { chunkedRequest, encodeRequest } from "../support/contract.ts";
import { installLibrary, ROOT, whyNotInstalled } from "../support/package.ts";
import { finish } from "../support/run.ts";
import { errorNumber } from "../support/service.ts";
import { TIMEOUT } from "../support/watch.ts";
import { RUNTIMES } from "./runtimes.ts";

/** A line of the log is also the body that creates it. */
function plant(id: bigint, name: string): string {
  return `{"id":${id},"name":${JSON.stringify(name)}}`;
}

/** Ways to send a body: as packets, on a connection of its own. */
const WAYS: readonly [what: string, encode: (token: string, body: string) => Buffer[]][] = [
  ["in one packet", (token, body) => [encodeRequest({ token }, { body })]],
  [
    "in two packets",
    (token, body) => {
      const bytes = encodeRequest({ token }, { body });
      return [bytes.subarray(0, -9), bytes.subarray(-9)];
    },
  ],
  [
    "in chunks",
    (token, body) => {
      const bytes = Buffer.from(body);
      const middle = bytes.length >> 1;
      return [chunkedRequest({ token }, bytes.subarray(0, middle), bytes.subarray(middle))];
    },
  ],
];
const NAMES = ["Fern", "Färn", "植物", "\0\u2028", "4,58", "ä".repeat(150_000)];

interface Runtime {
  readonly urls: readonly string[];
  readonly token: string;
  readonly data: string;
  /** Ends the program, and resolves with its exit status and standard error. */
  end(): Promise<{ readonly status: number | null; readonly stderr: string }>;
}

async function start(t: TestContext, words: readonly string[]): Promise<Runtime> {
  const folder = await installLibrary(t);
  const data = path.join(folder, "data");
  mkdirSync(data, { mode: 0o700 });
  cpSync(path.join(ROOT, "test/field/programs/plants.mjs"), path.join(folder, "plants.mjs"));
  const [program = "", ...args] = [...words, "plants.mjs"];
  const env = { ...process.env, DATA: data };
  const child: ChildProcess = spawn(program, args, { cwd: folder, env });
  t.after(() => child.stdin?.end()); // the child of a wrapper outlives the wrapper
  const finished = finish(child);
  const [line] = await Promise.race([
    once(child.stdout as NonNullable<typeof child.stdout>, "data"),
    finished.then(({ stderr }) => Promise.reject(new Error(`it ended early: ${stderr}`))),
  ]);
  return {
    ...JSON.parse(line),
    data,
    end: () => {
      child.stdin?.end();
      return finished;
    },
  };
}

/** Parses a line, and keeps every digit of the id. */
function read(line: string): unknown {
  return JSON.parse(line.replace(/^\{"id":(-?\d+)/, '{"id":"$1"'));
}

describe("the library", { skip: whyNotInstalled("test/field"), ...TIMEOUT }, () => {
  for (const [name, words] of RUNTIMES) {
    test(`under ${name} stores exactly the plants that it answers 200, and gives reasons for refusals`, async (t) => {
      const { urls, token, data, end } = await start(t, words);
      const stored = ['{"id":-9223372036854775808,"name":"Färn\\ud800","tag":""}'];
      let id = 2n ** 53n;
      for (const url of urls) {
        const client = await Client.connect(Number(new URL(url).port));
        for (const [way, encode] of WAYS) {
          for (const plantName of NAMES) {
            const line = plant(++id, plantName);
            await client.send(...encode(token, line));
            const answer = await client.next();
            if (answer.status === 200) {
              assert.deepEqual(JSON.parse(answer.text), { name: plantName });
              stored.push(line);
            } else t.diagnostic(`a body ${way} is answered ${errorNumber(answer)}`);
          }
        }
        client.destroy();
        const headers = { Authorization: `Bearer ${token}`, Accept: "application/x-ndjson" };
        const stream = await (await fetch(`${url}/plants`, { headers })).text();
        assert.equal(stream, readFileSync(path.join(data, "plants.jsonl"), "utf8"));
        assert.deepEqual(stream.split("\n").slice(0, -1).map(read), stored.map(read));
      }
      const { status, stderr } = await end();
      assert.equal(status, 0, stderr);
      assert.ok(isSound(await verifyLog(data)));
    });
  }
});
