/** A process that may open no more files (`ulimit -n`). */
import assert from "node:assert/strict";
import { utimesSync } from "node:fs";
import net from "node:net";
import path from "node:path";
import { test } from "node:test";
import { runCli } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canRun, limit, nextDescriptor, openSockets } from "./machine.ts";
import { assertLog, plant, Trial } from "./trial.ts";

const SPARE = 4;
const CROWD = 40;

test(
  "without a free descriptor new clients are closed, and every token is refused 2 s later, until there are descriptors again",
  TIMEOUT,
  async (t) => {
    if (!canRun(t, "prlimit", "--version")) return;
    const trial = await Trial.start(t);
    const client = await Client.connect(trial.server.port);
    const create = async (id: number) => {
      await client.send(encodeRequest(trial, { body: plant(id) }));
      return trial.account(plant(id), await client.next());
    };
    assert.equal(await create(1), 200);

    limit(trial.pid, `--nofile=${nextDescriptor(trial.pid) + SPARE}:`);
    const crowd: net.Socket[] = [];
    t.after(() => {
      for (const socket of crowd) socket.destroy();
    });
    let turnedAway = 0;
    const join = () => {
      const socket = net.connect(trial.server.port, "127.0.0.1");
      socket.on("error", () => {}).on("close", () => turnedAway++);
      crowd.push(socket.resume());
    };
    for (let client = 0; client < CROWD; client++) join();
    // The accepted connections took all descriptors, also a few that a look at the tokens had at first; the
    // others are closed, not left waiting.
    await until("most were turned away", () => turnedAway > CROWD / 2);
    // A file at rest is not read again: a server that started slowly would go on.
    utimesSync(path.join(trial.folder, "tokens.jsonl"), new Date(), new Date());
    await until("the token file counts as unreadable", async () => {
      join(); // what a look gave back meanwhile is taken, too
      return (await create(1)) === 50306;
    });
    // The holder of the lock cannot be asked, and counts as alive.
    const [get, second] = await Promise.all([
      runCli(["get", "1", "--data", trial.folder]),
      runCli(["serve", "--port", "0", "--data", trial.folder]),
    ]);
    assert.deepEqual([get.status, get.stdout], [1, ""]);
    assert.deepEqual([second.status, second.stdout], [1, ""]);

    limit(trial.pid, `--nofile=1024:`);
    await until("other connections are accepted again", async () => {
      const other = await Client.connect(trial.server.port);
      await other.send(encodeRequest(trial, { body: plant(2) }));
      const { status } = await other.next();
      other.destroy();
      return status === 200;
    });
    const read = await runCli(["get", "2", "--data", trial.folder]);
    assert.deepEqual([read.status, read.stdout], [0, `${plant(2)}\n`]);
    for (const socket of crowd) socket.destroy();
    client.destroy();
    const end = await trial.stop();
    assert.equal(end.status, 0);
    assert.ok(end.messages.length <= 3, end.messages.join("\n"));
    assertLog(
      trial.folder,
      [1, 2].map((id) => plant(id)),
    );
  },
);

test(
  "a server that starts with few descriptors limits its connections so that it never runs out",
  TIMEOUT,
  async (t) => {
    if (!canRun(t, "prlimit", "--version")) return;
    const trial = await Trial.start(t, { wrapper: ["prlimit", "--nofile=120:120"] });
    const before = openSockets(trial.pid);
    let closed = 0;
    for (let client = 0; client < 100; client++) {
      const socket = net.connect(trial.server.port, "127.0.0.1").on("error", () => {});
      socket.resume().on("close", () => closed++);
      t.after(() => socket.destroy());
    }
    await until("the others are closed", () => closed === 40);
    assert.equal(openSockets(trial.pid), before + 60);
    // The holder of the lock still answers, and can open files.
    const read = await runCli(["export", "--data", trial.folder]);
    assert.deepEqual([read.status, read.stdout, read.stderr], [0, "", ""]);
    assert.equal(trial.messages.length, 1, "one warning for all of them");
    assert.equal((await trial.stop()).status, 0);
  },
);
