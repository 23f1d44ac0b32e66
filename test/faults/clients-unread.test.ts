/** Clients that send and send, and never read an answer. */
import assert from "node:assert/strict";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { encodeRequest } from "../support/contract.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { openSockets, processorTicks } from "./machine.ts";
import { assertKept, plant, Trial } from "./trial.ts";

/** Each client that floods would send so much, far beyond what the sockets between hold. */
const BYTES = 64 * 1024 * 1024;
const PIECE_BYTES = 256 * 1024;
/** The server ends where its memory is not bounded: it has this much, a quarter of it in use. */
const SMALL_HEAP = { NODE_OPTIONS: "--max-old-space-size=112" };

const FLOODS: readonly ((trial: Trial) => Buffer)[] = [
  // Refused, with an answer ten times as long.
  () => Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
  // Replays, whose answer is as long as they are.
  (trial) => encodeRequest(trial, { body: plant(1, "n".repeat(50_000)) }),
];

/** Sends until it is cut; resolves with how much was taken from it. */
function flood(t: TestContext, port: number, request: Buffer): Promise<number> {
  const count = Math.ceil(PIECE_BYTES / request.length);
  const piece = Buffer.concat(Array.from({ length: count }, () => request));
  const socket = net.connect(port, "127.0.0.1");
  socket.pause();
  t.after(() => socket.destroy());
  let sent = 0;
  const send = () => {
    while (sent < BYTES && !socket.destroyed) {
      sent += piece.length;
      if (!socket.write(piece)) {
        socket.once("drain", send);
        return;
      }
    }
  };
  socket.on("connect", send);
  socket.on("error", () => {}); // it is cut while it sends
  return new Promise((resolve) => socket.on("close", () => resolve(sent)));
}

test(
  "clients that pipeline requests and never read are cut, small ones and large, in bounded memory",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t, { args: ["--stall-timeout-ms=4000"], env: SMALL_HEAP });
    assert.equal(await trial.create(1, "n".repeat(50_000)), 200);
    const before = openSockets(trial.pid);
    let isOver = false;
    const all = Promise.all(
      FLOODS.map((requestOf) => flood(t, trial.server.port, requestOf(trial))),
    );
    void all.finally(() => {
      isOver = true;
    });
    for (let id = 2; !isOver; id++) {
      assert.equal(await trial.create(id), 200, "a good client is answered meanwhile");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    for (const sent of await all) assert.ok(sent < BYTES, `${sent} bytes were taken`);
    await until("none of them is left", () => openSockets(trial.pid) <= before);
    assert.equal(await trial.create(1, "n".repeat(50_000)), 200);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertKept(trial.folder, trial.acknowledged);
  },
);

const STALLED = 8;
/** So many small requests fill the sockets with answers, and leave some that wait for room. */
const REQUESTS = 60_000;

test(
  `${STALLED} clients that pipeline small requests and never read do not use the memory up`,
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t, { args: ["--stall-timeout-ms=60000"], env: SMALL_HEAP });
    const bytes = Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(REQUESTS));
    const sockets = Array.from({ length: STALLED }, () =>
      net
        .connect(trial.server.port, "127.0.0.1")
        .on("error", () => {})
        .pause(),
    );
    t.after(() => {
      for (const socket of sockets) socket.destroy();
    });
    for (const socket of sockets) socket.write(bytes);
    // It has done all that it can once it uses no more of the processor, and serves nobody else.
    let before = -1;
    const isIdle = async () => {
      const used = processorTicks(trial.pid);
      const isSame = used === before;
      before = used;
      await new Promise((resolve) => setTimeout(resolve, 200));
      return isSame;
    };
    const deadline = performance.now() + 60_000;
    while (!(await isIdle()) && performance.now() < deadline);
    assert.equal(await trial.create(1), 200);
    for (const socket of sockets) socket.destroy();
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
  },
);
