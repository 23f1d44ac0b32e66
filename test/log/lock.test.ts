import assert from "node:assert/strict";
import fs from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import os from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { clock } from "../../src/clock.ts";
import { PlantStoreError } from "../../src/core/errors.ts";
import { type HeldLock, type LockOptions, locks } from "../../src/log/lock.ts";
import { makeFolder } from "../support/folders.ts";
import { openLog } from "../support/logs.ts";
import { until } from "../support/watch.ts";

/** A lock that is released when the test ends. */
async function hold(
  t: TestContext,
  folder: string,
  options: Partial<LockOptions> = {},
): Promise<HeldLock> {
  const lock = await locks.acquire(folder, { name: "lock", command: "first", ...options });
  t.after(() => lock.close());
  return lock;
}

const second = { name: "lock", command: "second" };

/** A socket that no process listens on any more, as a killed process leaves it. */
async function leaveDeadSocket(folder: string, name: string): Promise<void> {
  const server = await listenAt(path.join(folder, "dying"));
  // Closing removes the name it was bound to, and no other.
  fs.linkSync(path.join(folder, "dying"), path.join(folder, name));
  await new Promise((resolve) => server.close(resolve));
}

async function listenAt(address: string): Promise<Server> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(address, resolve));
  return server;
}

test("locks.acquire() refuses a second holder and names the first", async (t) => {
  const folder = makeFolder(t);
  await hold(t, folder);
  await assert.rejects(locks.acquire(folder, second), (error) => {
    assert.ok(error instanceof PlantStoreError);
    assert.equal(error.code, "locked");
    assert.match(error.message, new RegExp(`\\b${process.pid}\\b`));
    assert.match(error.message, /"first"/);
    return true;
  });
});

test("locks.acquire() keeps locks of other names and other folders apart", async (t) => {
  const folder = makeFolder(t);
  await hold(t, folder);
  await hold(t, folder, { name: "tokens" });
  await hold(t, folder, { name: "lock.1" });
  await hold(t, makeFolder(t));
  await assert.rejects(locks.acquire(folder, second), { code: "locked" });
});

test("locks.acquire() finds a lock through any path to the same folder", async (t) => {
  const folder = makeFolder(t);
  await hold(t, folder);
  const link = path.join(makeFolder(t), "link");
  fs.symlinkSync(folder, link);
  for (const other of [link, `${folder}/.`, path.relative(process.cwd(), folder)]) {
    await assert.rejects(locks.acquire(other, second), { code: "locked" });
  }
});

test("locks.askDurableBytes() returns what the holder knows, and undefined if there is no holder", async (t) => {
  const folder = makeFolder(t);
  assert.equal(await locks.askDurableBytes(folder, "lock"), undefined);
  let durableBytes: number | undefined;
  const lock = await locks.acquire(folder, {
    name: "lock",
    command: "serve",
    durableBytes: () => durableBytes,
  });
  const unknown = { code: "locked", message: /"serve"/ };
  await assert.rejects(locks.askDurableBytes(folder, "lock"), unknown, "it does not know yet");
  durableBytes = 12_345;
  assert.equal(await locks.askDurableBytes(folder, "lock"), durableBytes);
  assert.equal(await locks.askDurableBytes(folder, "tokens"), undefined);
  await lock.close();
  assert.equal(await locks.askDurableBytes(folder, "lock"), undefined);
});

test("a holder answers with one line about itself", async (t) => {
  const folder = makeFolder(t);
  await hold(t, folder, { durableBytes: () => 7 });
  const socket = connect(path.join(folder, "lock.1")).setEncoding("utf8");
  const line = (await socket.toArray()).join("");
  assert.match(line, /^[^\n]+\n$/);
  const { since, ...others } = JSON.parse(line);
  const expected = { pid: process.pid, host: os.hostname(), command: "first", durableBytes: 7 };
  assert.deepEqual(others, expected);
  assert.equal(new Date(since).toISOString(), since);
});

test("a lock works in a folder whose path is longer than a socket address", async (t) => {
  const parent = makeFolder(t);
  const folder = path.join(parent, "long ".repeat(30).trim(), "é".repeat(100));
  fs.mkdirSync(folder, { recursive: true });
  const lock = await hold(t, folder);
  await assert.rejects(locks.acquire(folder, second), { message: /"first"/ });
  await lock.close();
  assert.equal(await locks.askDurableBytes(folder, "lock"), undefined);
  await hold(t, folder);
  assert.deepEqual(fs.readdirSync(folder), ["lock.2"]);
});

test("a lock works at every length of path around that of a socket address", async (t) => {
  const parent = makeFolder(t);
  for (let length = 85; length <= 112; length++) {
    const bytes = length - parent.length - 1;
    // Two bytes a character: what counts is the length in bytes.
    const folder = path.join(parent, `${"x".repeat(bytes % 2)}${"é".repeat(bytes / 2)}`);
    fs.mkdirSync(folder);
    const lock = await locks.acquire(folder, second);
    await assert.rejects(locks.acquire(folder, second), { code: "locked" });
    await lock.close();
    assert.deepEqual(fs.readdirSync(folder), ["lock.1"], `${length} bytes`);
  }
});

test("HeldLock.close() leaves the highest number, which is never used again", async (t) => {
  const folder = makeFolder(t);
  for (let number = 1; number <= 12; number++) {
    const lock = await locks.acquire(folder, second);
    assert.deepEqual(fs.readdirSync(folder), [`lock.${number}`]);
    await lock.close();
    assert.deepEqual(fs.readdirSync(folder), [`lock.${number}`]);
  }
});

test("locks.acquire() refuses if the linked entry does not reach this process (fake link)", async (t) => {
  const folder = makeFolder(t);
  await leaveDeadSocket(folder, "dead");
  const { linkSync } = fs;
  // As on a file system that makes another file of a second name.
  t.mock.method(fs, "linkSync", (_: string, to: string) => linkSync(path.join(folder, "dead"), to));
  await assert.rejects(locks.acquire(folder, second), { code: "io_error" });
  assert.deepEqual(fs.readdirSync(folder), ["dead"], "nothing is left there");
});

/** Waits until the lock is lost; the lock's own timer does not keep the process alive. */
async function lossOf({ lost }: HeldLock): Promise<Error> {
  let loss: Error | undefined;
  void lost.then((error) => {
    loss = error;
  });
  await until("the lock is lost", () => loss !== undefined);
  return lost;
}

/** What takes the entry of a lock away from its holder. */
const REMOVALS: Readonly<Record<string, (entry: string) => void>> = {
  removed: (entry) => fs.rmSync(entry),
  renamed: (entry) => fs.renameSync(entry, `${entry}.old`),
  "replaced by a file": (entry) => {
    fs.rmSync(entry);
    fs.writeFileSync(entry, "");
  },
  "replaced by a rename": (entry) => {
    fs.writeFileSync(`${entry}.new`, "");
    fs.renameSync(`${entry}.new`, entry);
  },
};

for (const [what, remove] of Object.entries(REMOVALS)) {
  test(`HeldLock.lost resolves once the entry of the lock was ${what}`, async (t) => {
    const folder = makeFolder(t);
    const lock = await hold(t, folder);
    remove(path.join(folder, "lock.1"));
    assert.ok((await lossOf(lock)).message.includes(path.join(folder, "lock.1")));
    assert.equal(fs.existsSync(path.join(folder, "lock.2")), false, "it is never linked anew");
  });
}

test("HeldLock.lost resolves when another process has taken the lock after its entry was removed", async (t) => {
  const folder = makeFolder(t);
  const lock = await hold(t, folder);
  fs.rmSync(path.join(folder, "lock.1"));
  await hold(t, folder, { command: "second" }); // under the same name
  await lossOf(lock);
});

/** FAKE intervals, which pass when the test calls the result. */
function stopIntervals(t: TestContext): () => void {
  const runs = new Map<object, () => void>();
  t.mock.method(clock, "setInterval", (run: () => void) => {
    const timer = { unref() {}, refresh() {} };
    runs.set(timer, run);
    return timer;
  });
  t.mock.method(clock, "clearInterval", (timer: object) => runs.delete(timer));
  return () => {
    for (const run of runs.values()) run();
  };
}

test("HeldLock.lost stays pending while the lock is held, and after it was closed (fake clock)", async (t) => {
  const folder = makeFolder(t);
  const tick = stopIntervals(t);
  const lock = await locks.acquire(folder, { name: "lock", command: "first" });
  let isLost = false;
  void lock.lost.then(() => {
    isLost = true;
  });
  tick();
  await new Promise(setImmediate);
  assert.equal(isLost, false, "while it is held");
  await lock.close();
  fs.rmSync(path.join(folder, "lock.1"));
  tick();
  await new Promise(setImmediate);
  assert.equal(isLost, false, "after it was released");
});

test("locks.acquire() removes the sockets of dead processes, and nothing else", async (t) => {
  const folder = makeFolder(t);
  for (const name of ["lock.3", "lock.9", "lock.10", "lock.new-0123456789ab", "tokens.4"]) {
    await leaveDeadSocket(folder, name);
  }
  const foreign = ["lock.0", "lock.01", "lock.x", "lock", "locks.1", "plants.jsonl"];
  for (const name of foreign) fs.writeFileSync(path.join(folder, name), "");
  await hold(t, folder);
  const left = ["lock.11", "tokens.4", ...foreign];
  assert.deepEqual(fs.readdirSync(folder).sort(), left.sort());
});

test("locks.acquire() treats a holder that hangs up without an answer as alive", async (t) => {
  const folder = makeFolder(t);
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(path.join(folder, "lock.1"), resolve));
  t.after(() => server.close());
  await assert.rejects(locks.acquire(folder, second), { code: "locked" });
  await assert.rejects(locks.askDurableBytes(folder, "lock"), { code: "locked" });
});

test("locks.askDurableBytes() finds no holder if it closes its lock while it is asked", async (t) => {
  const folder = makeFolder(t);
  const lock = await hold(t, folder);
  const asked = locks.askDurableBytes(folder, "lock"); // connected by now, and not accepted
  await lock.close();
  assert.equal(await asked, undefined);
});

test("locks.acquire() names the host of a holder only if it is another host", async (t) => {
  const folder = makeFolder(t);
  const host = `not-${os.hostname()}`;
  const since = new Date().toISOString();
  const answer = JSON.stringify({ pid: 1, host, command: "serve", since });
  const server = createServer((socket) => socket.end(`${answer}\n`));
  await new Promise<void>((resolve) => server.listen(path.join(folder, "lock.1"), resolve));
  t.after(() => server.close());
  await assert.rejects(locks.acquire(folder, second), (error: Error) => {
    return error.message.includes(`"${host}"`);
  });
  const own = makeFolder(t);
  await hold(t, own);
  await assert.rejects(locks.acquire(own, second), (error: Error) => {
    return !error.message.includes(`"${os.hostname()}"`);
  });
});

/** Lets a rival take the next number just before we do, and die. */
async function outrun(t: TestContext, folder: string, times: number): Promise<() => number> {
  await leaveDeadSocket(folder, "dead");
  const link = fs.linkSync;
  let outruns = 0;
  t.mock.method(fs, "linkSync", (from: string, to: string) => {
    if (outruns++ < times) link(path.join(folder, "dead"), to);
    link(from, to);
  });
  return () => outruns;
}

test("locks.acquire() tries again at once when a faster rival has died", async (t) => {
  const folder = makeFolder(t);
  await outrun(t, folder, 3);
  await hold(t, folder);
  const named = { message: new RegExp(`\\b${process.pid}\\b`) };
  await assert.rejects(locks.acquire(folder, second), named);
});

test("locks.acquire() gives up if rivals come and die endlessly", async (t) => {
  const folder = makeFolder(t);
  const outruns = await outrun(t, folder, Number.POSITIVE_INFINITY);
  await assert.rejects(locks.acquire(folder, second), { code: "locked" });
  assert.equal(outruns(), 10);
});

test("locks.acquire() changes no mode and no umask", async (t) => {
  const calls = [
    t.mock.method(fs, "chmodSync", () => {}),
    t.mock.method(fs, "fchmodSync", () => {}),
    t.mock.method(process, "umask", () => 0),
  ];
  const folder = makeFolder(t);
  fs.writeFileSync(path.join(folder, "other"), "");
  await hold(t, folder);
  assert.deepEqual(
    calls.map(({ mock }) => mock.callCount()),
    [0, 0, 0],
  );
  const [other, lock] = ["other", "lock.1"].map((name) => fs.statSync(path.join(folder, name)));
  assert.equal((lock?.mode ?? 0) & 0o666, (other?.mode ?? 0) & 0o666, "as the umask says");
});

test("HeldLock.close() does not wait for a client that never hangs up", {
  timeout: 5000,
}, async (t) => {
  const folder = makeFolder(t);
  const lock = await locks.acquire(folder, second);
  const asking = connect({ path: path.join(folder, "lock.1"), allowHalfOpen: true });
  t.after(() => asking.destroy());
  await new Promise((resolve) => asking.once("end", resolve).resume());
  await lock.close();
  assert.equal(await locks.askDurableBytes(folder, "lock"), undefined);
});

test("locks.acquire() and locks.askDurableBytes() throw io_error for a folder that they cannot use", async (t) => {
  const missing = path.join(makeFolder(t), "missing");
  const { path: file } = await openLog(t);
  for (const folder of [missing, file]) {
    await assert.rejects(locks.acquire(folder, second), { code: "io_error" });
    await assert.rejects(locks.askDurableBytes(folder, "lock"), { code: "io_error" });
  }
});

test("locks.acquire() says whose folder it is that this user may not write to (fake refusal)", async (t) => {
  const folder = makeFolder(t);
  const { uid } = fs.statSync(folder);
  for (const call of ["readdirSync", "linkSync"] as const) {
    const refusing = t.mock.method(fs, call, () => {
      throw Object.assign(new Error("EACCES: permission denied"), { code: "EACCES" });
    });
    const message = new RegExp(`user ${uid}\\b.*user ${process.geteuid?.()}\\b`);
    await assert.rejects(locks.acquire(folder, second), { code: "io_error", message });
    refusing.mock.restore();
  }
});

const HOLDER = { pid: 1, host: "h", command: "serve", since: "2026-01-01T00:00:00.000Z" };

/** Holds lock.1 and sends the given answer. */
async function impersonate(t: TestContext, answer: (socket: Socket) => void): Promise<string> {
  const folder = makeFolder(t);
  const server = createServer((socket) => answer(socket.on("error", () => socket.destroy())));
  await new Promise<void>((resolve) => server.listen(path.join(folder, "lock.1"), resolve));
  t.after(() => server.close());
  return folder;
}

test("locks.askDurableBytes() returns the length that the holder reports", async (t) => {
  const answer = JSON.stringify({ ...HOLDER, durableBytes: 7, later: true });
  const folder = await impersonate(t, (socket) => socket.end(`${answer}\n`));
  assert.equal(await locks.askDurableBytes(folder, "lock"), 7);
});

const NO_ANSWERS: readonly unknown[] = [
  ...[null, 7, "x", [], {}],
  ...[-1, 0.5, "7", null, 2 ** 53, {}].map((durableBytes) => ({ ...HOLDER, durableBytes })),
  ...["1", -1, null].map((pid) => ({ ...HOLDER, pid, durableBytes: 7 })),
  { ...HOLDER, host: undefined, durableBytes: 7 },
  { ...HOLDER, command: ["serve"], durableBytes: 7 },
  { ...HOLDER, since: 0, durableBytes: 7 },
  { ...HOLDER, command: "x".repeat(4096), durableBytes: 7 },
];

for (const answer of NO_ANSWERS) {
  const text = JSON.stringify(answer);
  test(`a holder that answers ${text.slice(0, 99)} counts as silent`, async (t) => {
    const folder = await impersonate(t, (socket) => socket.end(`${text}\n`));
    const silent = { code: "locked", message: /does not answer/ };
    await assert.rejects(locks.askDurableBytes(folder, "lock"), silent);
    await assert.rejects(locks.acquire(folder, second), silent);
  });
}

const ENDLESS: Readonly<Record<string, (socket: Socket) => unknown>> = {
  "byte by byte": (socket) => setInterval(() => socket.write(" "), 50).unref(),
  "as fast as it is read": (socket) => {
    const send = () => {
      while (!socket.destroyed && socket.write(" ".repeat(65_536)));
    };
    socket.on("drain", send);
    send();
  },
};

for (const [way, send] of Object.entries(ENDLESS)) {
  test(`a holder that never finishes its answer counts as silent: ${way}`, async (t) => {
    const folder = await impersonate(t, send);
    await assert.rejects(locks.askDurableBytes(folder, "lock"), { code: "locked" });
  });
}
