/** For a while, more creates than the disk can take. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { test } from "node:test";
import { TIMEOUT, until } from "../support/watch.ts";
import { statusField } from "./machine.ts";
import { Trial } from "./trial.ts";

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
