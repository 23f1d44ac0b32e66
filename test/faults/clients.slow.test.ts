/** More clients, and more creates, than a server takes at once. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canTrace, faulty, statusField } from "./machine.ts";
import { assertKept, plant, Trial } from "./trial.ts";

const CREATES = 60;
/** So long that about ten creates fit into the largest budget that a machine gets. */
const NAME = "n".repeat(900_000);

test(
  "creates beyond the limit are answered 503 at once and not stored; sent again, all are stored",
  TIMEOUT,
  async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const { read, ...under } = faulty(t, folder, "write:delay_enter=1000000:when=1..2");
    const trial = await Trial.start(t, { folder, ...under });
    const ids = Array.from({ length: CREATES }, (_, at) => at + 1);
    const outcomes = await trial.createAll(ids, NAME);
    const refused = ids.filter((_, at) => outcomes[at] === 50301);
    assert.equal(refused.length + trial.acknowledged.length, CREATES, outcomes.join(" "));
    assert.ok(trial.acknowledged.length > 0, "some were stored");
    assert.ok(refused.length > CREATES / 2, `${refused.length} were refused`);
    assert.match(read(), /DELAYED/);

    assertKept(folder, trial.acknowledged);
    assert.equal(readLog(folder).split("\n").length - 1, trial.acknowledged.length);
    // As a client that obeys Retry-After: again and again, here one at a time.
    for (const id of refused) assert.equal(await trial.create(id, NAME), 200);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assert.equal(trial.acknowledged.length, CREATES);
    assertKept(folder, trial.acknowledged);
    assert.ok(trial.acknowledged.includes(plant(CREATES, NAME)), "the last of them, too");
  },
);

const CROWD = 1000;

test(
  "a thousand clients that connect while the server is busy are all connected",
  TIMEOUT,
  async (t) => {
    const most = Number(readFileSync("/proc/sys/net/core/somaxconn", "utf8"));
    if (most < CROWD) return t.skip(`this machine lets ${most} connections wait`);
    const trial = await Trial.start(t);
    const { process: server, port } = trial.server;
    server.kill("SIGSTOP");
    await until("it has stopped", () => statusField(trial.pid, "State").startsWith("T"));
    const sockets = Array.from({ length: CROWD }, () => connect(port, "127.0.0.1"));
    t.after(() => {
      for (const socket of sockets) socket.destroy();
    });
    // A connection that finds no room is not refused: the client's system tries again until the server is free.
    await Promise.all(sockets.map((socket) => once(socket, "connect")));
    server.kill("SIGCONT");
    assert.equal(await trial.create(1), 200);
  },
);
