/** Thousands of clients that leave before they are answered. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { test } from "node:test";
import { encodeRequest } from "../support/contract.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { openSockets } from "./machine.ts";
import { assertKept, plant, Trial } from "./trial.ts";

const GONE = 3000;
const AT_A_TIME = 50;
/** The length of a body. So many fit into the limit that a leak of one in two hundred would be found. */
const BODY_BYTES = 4000;
const BODIES_MAX = 16;

const NAME = "n".repeat(BODY_BYTES - plant(1000, "").length);

/** Connects, sends this much of a request, and leaves: by a close or by a reset. */
async function leave(port: number, bytes: Buffer, isReset: boolean): Promise<void> {
  const socket = net.connect(port, "127.0.0.1").on("error", () => {});
  await once(socket, "connect");
  await new Promise((resolve) => socket.write(bytes, resolve));
  if (isReset) socket.resetAndDestroy();
  else socket.destroy();
}

test(
  `${GONE} clients that leave at any point of a request leave no memory, file or connection in use`,
  TIMEOUT,
  async (t) => {
    // A create holds three times its body and a kilobyte, and one token half of it all.
    const bound = 2 * BODIES_MAX * (3 * BODY_BYTES + 1024);
    const trial = await Trial.start(t, {
      args: [
        `--pending-bytes-max=${bound}`,
        `--body-bytes-max=${bound}`,
        "--header-timeout-ms=600000", // so that no timeout frees what they left
        "--request-timeout-ms=600000",
      ],
    });
    const before = openSockets(trial.pid);
    for (let at = 0; at < GONE; at += AT_A_TIME) {
      const leaving = Array.from({ length: AT_A_TIME }, (_, n) => {
        const request = encodeRequest(trial, { body: plant(1000 + at + n, NAME) });
        const bodyStart = request.length - BODY_BYTES;
        // Within the headers, within the body, and after it, before the answer.
        const ends = [
          bodyStart - 10,
          bodyStart,
          bodyStart + 2000,
          request.length - 1,
          request.length,
        ];
        return leave(trial.server.port, request.subarray(0, ends[n % ends.length]), n % 2 === 0);
      });
      await Promise.all(leaving);
    }
    await until("none of them is left", () => openSockets(trial.pid) <= before);

    // The whole limit is free again: exactly so many bodies can be in flight.
    const ids = Array.from({ length: BODIES_MAX }, (_, at) => at + 100);
    const held = await Promise.all(ids.map((id) => trial.hold(id, NAME.slice(0, -10))));
    await until("all of them are in flight", async () => {
      return (await trial.create(1, "x".repeat(BODY_BYTES))) === 50301;
    });
    for (const { finish } of held) assert.equal(await finish(), 200);

    // Each plant that a client sent before it left is stored once, whole, or not at all, and can be sent again.
    const ends = readLog(trial.folder)
      .split("\n")
      .slice(0, -1)
      .map((line) => JSON.parse(line).id);
    assert.equal(new Set(ends).size, ends.length);
    for (const id of [1000, 1001, 1002, 1003, 1004]) {
      assert.equal(await trial.create(id, NAME), 200);
    }
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertKept(trial.folder, trial.acknowledged);
  },
);
