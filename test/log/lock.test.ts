/** The lock of a data directory, by real sockets. Rivals of many processes are in test/kernel. */
import assert from "node:assert/strict";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { type HeldLock, type LockOptions, locks } from "../../src/log/lock.ts";
import { makeFolder } from "../support/folders.ts";
import { openLog } from "../support/stores.ts";

const FIRST = { name: "lock", command: "first" };
const SECOND = { name: "lock", command: "second" };

/** A lock that is released when the test ends. */
async function hold(
  t: TestContext,
  folder: string,
  options: Partial<LockOptions> = {},
): Promise<HeldLock> {
  const lock = await locks.acquire(folder, { ...FIRST, ...options });
  t.after(() => lock.close());
  return lock;
}

async function listenAt(
  t: TestContext,
  address: string,
  onConnection: (socket: net.Socket) => void = () => {},
): Promise<net.Server> {
  const server = net.createServer((socket) => onConnection(socket.on("error", () => {})));
  await new Promise<void>((resolve) => server.listen(address, resolve));
  t.after(() => server.close());
  return server;
}

/** A socket that no process listens on any more, as a killed process leaves it. */
async function leaveDeadSocket(t: TestContext, folder: string, name: string): Promise<void> {
  const server = await listenAt(t, path.join(folder, "dying"));
  // Closing removes the name it was bound to, and no other.
  fs.linkSync(path.join(folder, "dying"), path.join(folder, name));
  await new Promise((resolve) => server.close(resolve));
}

test("a second holder is refused, and the error names the first", async (t) => {
  const folder = makeFolder(t);
  await hold(t, folder);
  const message = new RegExp(`"first" \\(process ${process.pid} on "${os.hostname()}"`);
  await assert.rejects(locks.acquire(folder, SECOND), { code: "locked", message });
});

test("an acquire that waits gets the lock when it is released, or is refused", async (t) => {
  const folder = makeFolder(t);
  const lock = await hold(t, folder);
  await assert.rejects(locks.acquire(folder, { ...SECOND, waitMs: 30 }), { code: "locked" });
  const waiting = locks.acquire(folder, { ...SECOND, waitMs: 60_000 });
  await lock.close();
  await (await waiting).close();
});

test("a holder reports what it is, and how much of the log is durable", async (t) => {
  const folder = makeFolder(t);
  assert.equal(await locks.findHolder(folder, "lock"), undefined);
  let durableBytes: number | undefined;
  const lock = await hold(t, folder, { durableBytes: () => durableBytes });
  const { since = "", ...found } = (await locks.findHolder(folder, "lock")) ?? {};
  assert.deepEqual(found, { pid: process.pid, host: os.hostname(), command: "first" });
  assert.equal(new Date(since).toISOString(), since);
  durableBytes = 12_345;
  assert.equal((await locks.findHolder(folder, "lock"))?.durableBytes, 12_345);
  assert.equal(await locks.findHolder(folder, "tokens-lock"), undefined);
  await lock.close();
  assert.equal(await locks.findHolder(folder, "lock"), undefined);
});

test("the highest number stays after a release, and is never used again", async (t) => {
  const folder = makeFolder(t);
  for (let number = 1; number <= 12; number++) {
    const lock = await locks.acquire(folder, FIRST);
    await lock.close();
    assert.deepEqual(fs.readdirSync(folder), [`lock.${number}`]);
  }
});

test("the sockets of dead processes are removed, and nothing else", async (t) => {
  const folder = makeFolder(t);
  for (const name of ["lock.3", "lock.9", "lock.10", "lock.new-01234567", "tokens-lock.4"]) {
    await leaveDeadSocket(t, folder, name);
  }
  const others = ["lock.0", "lock.01", "lock.x", "lock", "locks.1", "plants.jsonl"];
  for (const name of others) fs.writeFileSync(path.join(folder, name), "");
  await hold(t, folder);
  const left = ["lock.11", "tokens-lock.4", ...others];
  assert.deepEqual(fs.readdirSync(folder).sort(), left.sort());
});

const REMOVALS: Readonly<Record<string, (entry: string) => void>> = {
  removed: (entry) => fs.rmSync(entry),
  renamed: (entry) => fs.renameSync(entry, `${entry}.old`),
  "replaced by a file": (entry) => {
    fs.writeFileSync(`${entry}.new`, "");
    fs.renameSync(`${entry}.new`, entry);
  },
};

for (const [what, remove] of Object.entries(REMOVALS)) {
  test(`a lock whose entry was ${what} is lost`, async (t) => {
    const folder = makeFolder(t);
    const lock = await hold(t, folder);
    lock.assertHeld();
    remove(path.join(folder, "lock.1"));
    assert.throws(() => lock.assertHeld(), { code: "locked" });
  });
}

test("a lock is lost if its entry is removed and another process takes the same number", async (t) => {
  const folder = makeFolder(t);
  const lock = await hold(t, folder);
  fs.rmSync(path.join(folder, "lock.1"));
  const other = await hold(t, folder, SECOND);
  assert.throws(() => lock.assertHeld(), { code: "locked" });
  other.assertHeld();
});

test("a rival that takes the number first is asked (fake rival)", async (t) => {
  const folder = makeFolder(t);
  await leaveDeadSocket(t, folder, "rival");
  const { linkSync } = fs;
  const { mock } = t.mock.method(fs, "linkSync", (from: string, to: string) => {
    if (mock.callCount() === 0) linkSync(path.join(folder, "rival"), to);
    linkSync(from, to);
  });
  await hold(t, folder); // the rival is dead
  assert.deepEqual(fs.readdirSync(folder).sort(), ["lock.2", "rival"]);
});

test("a file system on which a linked socket reaches nobody is refused (fake link)", async (t) => {
  const folder = makeFolder(t);
  await leaveDeadSocket(t, folder, "dead");
  const { linkSync } = fs;
  t.mock.method(fs, "linkSync", (_: string, to: string) => linkSync(path.join(folder, "dead"), to));
  await assert.rejects(locks.acquire(folder, SECOND), { code: "io_error" });
});

const SILENT: Readonly<Record<string, (socket: net.Socket) => unknown>> = {
  "that hangs up": (socket) => socket.destroy(),
  "that answers no JSON": (socket) => socket.end("hello\n"),
  "that never answers": () => {},
};

for (const [what, respond] of Object.entries(SILENT)) {
  test(`a process ${what} is alive, and holds the lock`, async (t) => {
    const folder = makeFolder(t);
    const sockets: net.Socket[] = [];
    await listenAt(t, path.join(folder, "lock.1"), (socket) => {
      sockets.push(socket);
      respond(socket);
    });
    await assert.rejects(locks.findHolder(folder, "lock"), { code: "locked" });
    await assert.rejects(locks.acquire(folder, SECOND), { code: "locked" });
    for (const socket of sockets) socket.destroy();
  });
}

test("a release does not wait for a client that never disconnects", {
  timeout: 5000,
}, async (t) => {
  const folder = makeFolder(t);
  const lock = await locks.acquire(folder, FIRST);
  const asking = net.connect({ path: path.join(folder, "lock.1"), allowHalfOpen: true });
  t.after(() => asking.destroy());
  await new Promise((resolve) => asking.once("end", resolve).resume());
  await lock.close();
});

test("a folder that cannot be used is an io_error", async (t) => {
  const { path: file } = await openLog(t);
  for (const folder of [path.join(makeFolder(t), "missing"), file]) {
    await assert.rejects(locks.acquire(folder, SECOND), { code: "io_error" });
    await assert.rejects(locks.findHolder(folder, "lock"), { code: "io_error" });
  }
});

test("a path too long for a socket is refused, and works through a symbolic link", async (t) => {
  const parent = makeFolder(t);
  for (let length = 75; length <= 110; length++) {
    const folder = path.join(parent, "x".repeat(length - parent.length - 1));
    fs.mkdirSync(folder);
    const isShort = length <= 107 - "/lock.new-01234567".length;
    if (isShort) await (await locks.acquire(folder, FIRST)).close();
    else await assert.rejects(locks.acquire(folder, FIRST), { code: "io_error" });
    assert.equal(await locks.findHolder(folder, "lock"), undefined);
    const link = path.join(parent, "link");
    fs.symlinkSync(folder, link);
    await (await locks.acquire(link, FIRST)).close();
    fs.unlinkSync(link);
    if (folder.length <= 107 - "/lock.1".length) continue;
    await assert.rejects(locks.findHolder(folder, "lock"), { code: "io_error" });
  }
});

test("a process that links a lower number than its rival gives up", async (t) => {
  const folder = makeFolder(t);
  const link = fs.linkSync;
  t.mock.method(fs, "linkSync", (from: string, to: string) => {
    link(from, `${folder}/lock.2`); // a rival was faster, and has removed the socket of number 1
    link(from, to);
  });
  await assert.rejects(locks.acquire(folder, FIRST), { code: "locked" });
});
