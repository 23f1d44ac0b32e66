/** Clients that never stop sending, and never read an answer. */
import assert from "node:assert/strict";
import net from "node:net";
import { test } from "node:test";
import { TIMEOUT } from "../support/watch.ts";
import { processorTicks } from "./machine.ts";
import { Trial } from "./trial.ts";

/** The server's heap, a quarter of which is in use: without a limit on memory the server would end. */
const SMALL_HEAP = { NODE_OPTIONS: "--max-old-space-size=112" };

const SMALL = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

const STALLED = 8;
/** So many small requests fill the sockets with answers, and some answers still wait for room. */
const REQUESTS = 60_000;

test(
  `${STALLED} clients that pipeline small requests and never read do not exhaust the memory`,
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t, { env: SMALL_HEAP });
    const bytes = Buffer.from(SMALL.repeat(REQUESTS));
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
    // The server has done everything it can once it no longer uses the processor.
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
