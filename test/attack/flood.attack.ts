/**
 * For two seconds, clients open connections, pipeline requests without a good token, and close. Measures
 * how long the next ordinary client waits, compared with a bare `node:http` server.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Trial } from "../faults/trial.ts";
import { freePort } from "../support/serve.ts";
import { TIMEOUT, until } from "../support/watch.ts";

const FLOOD_MS = 2000;
const AT_A_TIME = 64;
const REQUESTS = 500;
const WAIT_MS_MAX = 2000;

const FLOODS: readonly [what: string, request: string][] = [
  ["requests without a body", "GET /plants/1 HTTP/1.1\r\nHost: a\r\n\r\n"],
  ["guesses", "GET /plants/1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer guess\r\n\r\n"],
  ["creates", "POST /plants HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}"],
];

/** Opens a connection, sends and closes, again and again; returns the number of connections. */
async function flood(port: number, request: string): Promise<number> {
  const bytes = Buffer.from(request.repeat(REQUESTS));
  const deadline = performance.now() + FLOOD_MS;
  let count = 0;
  const client = async () => {
    while (performance.now() < deadline) {
      const socket = net.connect(port, "127.0.0.1").on("error", () => {});
      socket.write(bytes, () => socket.destroy());
      await once(socket, "close");
      count++;
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, client));
  return count;
}

/** Measures how long a client waits for the first bytes of an answer. */
async function ask(port: number): Promise<number> {
  const begun = performance.now();
  const socket = net.connect(port, "127.0.0.1");
  socket.write("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  await once(socket, "data");
  socket.destroy();
  return performance.now() - begun;
}

async function isOpen(port: number): Promise<boolean> {
  return ask(port).then(
    () => true,
    () => false,
  );
}

for (const [what, request] of FLOODS) {
  test(`the server recovers soon after a flood of ${what}`, TIMEOUT, async (t) => {
    const port = await freePort();
    const floor = fileURLToPath(new URL("../bench/floor.mjs", import.meta.url));
    const bare = spawn(process.execPath, [floor, String(port)], { stdio: "ignore" });
    t.after(() => bare.kill("SIGKILL"));
    await until("the bare server listens", () => isOpen(port));
    const trial = await Trial.start(t);
    await flood(port, request);
    const bareMs = await ask(port);
    bare.kill("SIGKILL");
    const count = await flood(trial.server.port, request);
    const ms = await ask(trial.server.port);
    const most = Math.max(2 * bareMs, WAIT_MS_MAX);
    t.diagnostic(`${count} connections: ${ms.toFixed(0)} ms, at most ${most.toFixed(0)}`);
    assert.ok(ms <= most, `${ms} ms`);
    assert.equal(await trial.create(1), 200);
  });
}
