/** What the port to files promises, of the system's disk and of the simulated one; the system's errors in words. */
import assert from "node:assert/strict";
import fs from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import type { Disk, OpenFile } from "../../src/log/disk.ts";
import { describeSystemError, disk, ioError, isNoRoom } from "../../src/log/disk.ts";
import { SimulatedClock } from "../simulation/clock.ts";
import { SimulatedDisk } from "../simulation/disk.ts";
import { Platter } from "../simulation/platter.ts";
import { Random } from "../simulation/random.ts";
import { RuleBook } from "../simulation/rules.ts";
import { makeFolder } from "../support/folders.ts";

type Check = (disk: Disk, folder: string) => Promise<void>;

async function write(at: Disk, filePath: string, text: string): Promise<OpenFile> {
  const file = await at.openForAppending(filePath);
  assert.equal(await file.append(Buffer.from(text), 0), Buffer.byteLength(text));
  return file;
}

async function read(file: OpenFile, bytes = 100, position = 0): Promise<string> {
  const buffer = Buffer.alloc(bytes);
  const count = await file.read(buffer, 0, bytes, position);
  return buffer.toString("utf8", 0, count);
}

const readAt = async (at: Disk, filePath: string) => (await at.readFile(filePath)).toString();
const code = (expected: string) => ({ code: expected });

const CHECKS: Record<string, Check> = {
  "an append goes to the end of the file, also of what another process has appended": async (
    at,
    folder,
  ) => {
    const file = await write(at, path.join(folder, "a"), "one");
    const other = await write(at, path.join(folder, "a"), "two");
    assert.equal(await file.append(Buffer.from("-three-"), 1), 6);
    assert.equal(await read(other), "onetwothree-");
    await Promise.all([file.close(), other.close()]);
  },

  "a truncation cuts, and the next append follows": async (at, folder) => {
    const file = await write(at, path.join(folder, "a"), "0123456789");
    file.truncate(5);
    await file.sync();
    await file.append(Buffer.from("x"), 0);
    assert.equal(await read(file), "01234x");
    await file.close();
  },

  "a read returns fewer bytes at the end of the file, and fills a part of the buffer": async (
    at,
    folder,
  ) => {
    const file = await write(at, path.join(folder, "a"), "0123456789");
    assert.equal(await read(file, 3, 2), "234");
    assert.equal(await read(file, 9, 8), "89");
    assert.equal(await read(file, 9, 10), "");
    const buffer = Buffer.from("abcdef");
    assert.equal(await file.read(buffer, 2, 3, 0), 3);
    assert.equal(buffer.toString(), "ab012f");
    await file.close();
  },

  "a missing file cannot be opened for reading, and is made for appending": async (at, folder) => {
    const filePath = path.join(folder, "a");
    await assert.rejects(at.openForReading(filePath), code("ENOENT"));
    await assert.rejects(at.readFile(filePath), code("ENOENT"));
    const file = await at.openForAppending(filePath);
    assert.equal(Number(file.state().mode & 0o7777n), 0o600);
    assert.equal(file.state().size, 0n);
    await file.close();
    await assert.rejects(at.openForAppending(path.join(folder, "b", "a")), code("ENOENT"));
  },

  "a file that was opened for reading refuses every change": async (at, folder) => {
    const filePath = path.join(folder, "a");
    await (await write(at, filePath, "text")).close();
    const file = await at.openForReading(filePath);
    await assert.rejects(file.append(Buffer.from("x"), 0));
    assert.throws(() => file.truncate(0));
    await file.close();
    assert.equal(await readAt(at, filePath), "text");
  },

  "a folder cannot be appended to": async (at, folder) => {
    await assert.rejects(at.openForAppending(folder), code("EISDIR"));
  },

  "a state is that of the file, whatever its name": async (at, folder) => {
    const file = await write(at, path.join(folder, "a"), "text");
    at.rename(path.join(folder, "a"), path.join(folder, "b"));
    const found = at.stat(path.join(folder, "b"));
    const opened = file.state();
    assert.deepEqual([found?.dev, found?.ino, found?.size], [opened.dev, opened.ino, 4n]);
    assert.deepEqual([opened.isDirectory(), at.stat(folder)?.isDirectory()], [false, true]);
    assert.equal(at.stat(path.join(folder, "a")), undefined);
    await file.close();
  },

  "a folder lists its names": async (at, folder) => {
    assert.deepEqual(at.list(folder), []);
    await (await write(at, path.join(folder, "a"), "")).close();
    at.makeFolder(path.join(folder, "b"));
    assert.deepEqual(at.list(folder).sort(), ["a", "b"]);
    assert.throws(() => at.list(path.join(folder, "c")), code("ENOENT"));
  },

  "a rename replaces what has the name, and an open file stays readable": async (at, folder) => {
    const [a, b] = [path.join(folder, "a"), path.join(folder, "b")];
    await (await write(at, a, "new")).close();
    const old = await write(at, b, "old");
    at.rename(a, b);
    assert.deepEqual(at.list(folder), ["b"]);
    assert.equal(await readAt(at, b), "new");
    assert.equal(await read(old), "old");
    await old.close();
    assert.throws(() => at.rename(a, b), code("ENOENT"));
  },

  "an unlink removes a name, if there is one, but no folder": async (at, folder) => {
    const a = path.join(folder, "a");
    const file = await write(at, a, "text");
    at.unlink(a);
    at.unlink(a);
    assert.deepEqual(at.list(folder), []);
    assert.equal(await read(file), "text");
    await file.close();
    at.makeFolder(a);
    assert.throws(() => at.unlink(a));
  },

  "a folder is made in one that exists, and removed when it is empty": async (at, folder) => {
    const inner = path.join(folder, "a");
    at.makeFolder(inner);
    assert.equal(Number((at.stat(inner)?.mode ?? 0n) & 0o7777n), 0o700);
    assert.throws(() => at.makeFolder(inner), code("EEXIST"));
    assert.throws(() => at.makeFolder(path.join(folder, "b", "c")), code("ENOENT"));
    await (await write(at, path.join(inner, "x"), "")).close();
    assert.throws(() => at.removeFolder(inner), code("ENOTEMPTY"));
    at.unlink(path.join(inner, "x"));
    at.removeFolder(inner);
    assert.deepEqual(at.list(folder), []);
  },

  "the names of a folder are synced, and those of the folder above it": async (at, folder) => {
    await at.syncFolder(folder);
    await at.syncFolder(`${folder}/..`);
    await assert.rejects(at.syncFolder(path.join(folder, "b")), code("ENOENT"));
  },
};

async function onSystem(t: TestContext, check: Check): Promise<void> {
  await check(disk, makeFolder(t));
}

async function onSimulation(_t: TestContext, check: Check): Promise<void> {
  const random = new Random("contract");
  const clock = new SimulatedClock(random);
  const rules = new RuleBook();
  const simulated = new SimulatedDisk({ platter: new Platter(rules), clock, random, rules });
  const checking = async () => {
    simulated.makeFolder("/data");
    await check(simulated, "/data");
  };
  await clock.run(checking());
}

for (const [name, check] of Object.entries(CHECKS)) {
  test(`on the system's disk, ${name}`, (t) => onSystem(t, check));
  test(`on the simulated disk, ${name}`, (t) => onSimulation(t, check));
}

test("a symbolic link is not followed to a file", async (t) => {
  const folder = makeFolder(t);
  const [target, link] = [path.join(folder, "target"), path.join(folder, "link")];
  fs.writeFileSync(target, "text");
  fs.symlinkSync(target, link);
  for (const open of [disk.openForReading, disk.openForAppending, disk.readFile]) {
    await assert.rejects(open(link), { code: "ELOOP" });
  }
});

test("a system's error is described without the call and the path", async (t) => {
  const missing = path.join(makeFolder(t), "none");
  const error = await fs.promises.readFile(missing).catch((cause) => cause);
  assert.match(describeSystemError(error), /^(?!.*open)[a-z ]+ \(ENOENT\)$/);
  const { code, cause, message } = ioError("Cannot look", error);
  assert.deepEqual([code, cause], ["io_error", error]);
  assert.equal(message, `Cannot look: ${describeSystemError(error)}`);
});

for (const [text, code, errno, words, isFull] of [
  ["Unknown system error -122, write", "Unknown system error -122", -122, /EDQUOT/, true],
  ["ENOSPC: no space left on device, write", "ENOSPC", -28, /ENOSPC.*df -i/, true],
  ["EFBIG: file too large, write", "EFBIG", -27, /EFBIG/, true],
  ["EIO: i/o error, fsync", "EIO", -5, /^i\/o error \(EIO\)$/, false],
  ["short write", undefined, undefined, /^short write$/, false],
] as const) {
  test(`"${text}" is ${isFull ? "a lack of room" : "no lack of room"}, and is described`, () => {
    const error = Object.assign(new Error(text), code && { code, errno });
    assert.match(describeSystemError(error), words);
    assert.equal(isNoRoom(error), isFull);
  });
}
