/** What the port to files promises, of the system's disk and of the simulated one. */
import assert from "node:assert/strict";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { type Disk, disk, type OpenFile } from "../../src/log/disk.ts";
import { SimulatedClock } from "../simulation/clock.ts";
import { SimulatedDisk } from "../simulation/disk.ts";
import { Platter } from "../simulation/platter.ts";
import { Random } from "../simulation/random.ts";
import { RuleBook } from "../simulation/rules.ts";
import { makeFolder } from "../support/folders.ts";

type Check = (disk: Disk, folder: string) => Promise<void>;

async function write(at: Disk, filePath: string, text: string): Promise<OpenFile> {
  const file = await at.openForChanges(filePath);
  await append(file, text);
  return file;
}

async function append(file: OpenFile, text: string): Promise<void> {
  assert.equal(await file.append(Buffer.from(text), 0), Buffer.byteLength(text));
}

function readSome(file: OpenFile, bytes: number, position: number): Promise<string> {
  const buffer = Buffer.alloc(bytes);
  return new Promise((resolve, reject) => {
    file.read(buffer, 0, bytes, position, (cause, got) =>
      cause === null ? resolve(buffer.toString("utf8", 0, got)) : reject(cause),
    );
  });
}

function textOf(file: OpenFile): string {
  const buffer = Buffer.alloc(Number(file.state().size));
  assert.equal(file.readNow(buffer, 0), buffer.length);
  return buffer.toString();
}

async function readAt(at: Disk, filePath: string): Promise<string> {
  const file = await at.open(filePath);
  try {
    return textOf(file);
  } finally {
    await file.close();
  }
}

function namesOf(at: Disk, folder: string): string[] {
  return at
    .list(folder)
    .map(({ name, kind }) => `${name}: ${kind}`)
    .sort();
}

const code = (expected: string) => ({ code: expected });

const CHECKS: Record<string, Check> = {
  "an append goes to the end of the file, also of what another process has appended": async (
    at,
    folder,
  ) => {
    const file = await write(at, path.join(folder, "a"), "one");
    const other = await at.openForChanges(path.join(folder, "a"));
    await append(other, "two");
    assert.equal(await file.append(Buffer.from("-three-"), 1), 6);
    assert.equal(textOf(other), "onetwothree-");
    await Promise.all([file.close(), other.close()]);
  },

  "an overwrite changes bytes in place, and a truncation cuts": async (at, folder) => {
    const file = await write(at, path.join(folder, "a"), "0123456789");
    assert.equal(await file.overwrite(Buffer.from("xyz"), 1, 4), 2);
    assert.equal(textOf(file), "0123yz6789");
    file.truncate(5);
    assert.equal(textOf(file), "0123y");
    file.truncate(7);
    assert.equal(textOf(file), "0123y\0\0");
    await file.close();
  },

  "a read returns fewer bytes at the end of the file": async (at, folder) => {
    const file = await write(at, path.join(folder, "a"), "0123456789");
    assert.equal(await readSome(file, 3, 2), "234");
    assert.equal(await readSome(file, 9, 8), "89");
    assert.equal(await readSome(file, 9, 10), "");
    assert.equal(file.readNow(Buffer.alloc(4), 8), 2);
    assert.equal(file.readNow(Buffer.alloc(4), 20), 0);
    await file.close();
  },

  "a missing file cannot be opened to be read, and is made to be changed": async (at, folder) => {
    const filePath = path.join(folder, "a");
    await assert.rejects(at.open(filePath), code("ENOENT"));
    const file = await at.openForChanges(filePath);
    assert.equal(Number(file.state().mode & 0o7777n), 0o600);
    assert.equal(file.state().size, 0n);
    await file.close();
    await assert.rejects(at.openForChanges(path.join(folder, "b", "a")), code("ENOENT"));
    await assert.rejects(at.openForChanges(path.join(filePath, "a")), code("ENOTDIR"));
  },

  "a file that was opened to be read refuses every change": async (at, folder) => {
    const filePath = path.join(folder, "a");
    await (await write(at, filePath, "text")).close();
    const file = await at.open(filePath);
    await assert.rejects(file.append(Buffer.from("x"), 0));
    await assert.rejects(file.overwrite(Buffer.from("x"), 0, 0));
    assert.throws(() => file.truncate(0));
    await file.close();
    assert.equal(await readAt(at, filePath), "text");
  },

  "a folder cannot be opened as a file": async (at, folder) => {
    await assert.rejects(at.open(folder), /expected a regular file, got a folder/);
    await assert.rejects(at.openForChanges(folder));
    assert.equal(await at.openText(folder, 10), undefined);
  },

  "a state is that of the file, whatever its name": async (at, folder) => {
    const file = await write(at, path.join(folder, "a"), "text");
    at.rename(path.join(folder, "a"), path.join(folder, "b"));
    const found = at.find(path.join(folder, "b"));
    const opened = file.state();
    assert.deepEqual([found?.dev, found?.ino, found?.size], [opened.dev, opened.ino, 4n]);
    assert.deepEqual([opened.isFile(), opened.isDirectory(), opened.nlink], [true, false, 1n]);
    assert.ok(opened.ctimeNs > 0n && opened.mtimeNs > 0n && opened.ctimeMs > 0n);
    await file.close();
  },

  "what is missing is not found, also below a file": async (at, folder) => {
    await (await write(at, path.join(folder, "a"), "")).close();
    for (const missing of ["b", "a/b", "b/c"]) {
      const filePath = path.join(folder, missing);
      assert.equal(at.find(filePath), undefined);
      assert.equal(at.findEntry(filePath), undefined);
    }
    assert.equal(await at.findLater(path.join(folder, "b")), undefined);
    assert.equal((await at.findLater(path.join(folder, "a")))?.size, 0n);
    assert.throws(() => at.realPath(path.join(folder, "b")), code("ENOENT"));
    assert.equal(at.realPath(path.join(folder, "x", "..", "a")), path.join(folder, "a"));
  },

  "a folder lists its names": async (at, folder) => {
    assert.deepEqual(at.list(folder), []);
    await (await write(at, path.join(folder, "a"), "")).close();
    at.makeFolder(path.join(folder, "b"));
    assert.deepEqual(namesOf(at, folder), ["a: file", "b: folder"]);
    assert.throws(() => at.list(path.join(folder, "c")), code("ENOENT"));
  },

  "a rename replaces what has the name, and an open file stays readable": async (at, folder) => {
    const [a, b] = [path.join(folder, "a"), path.join(folder, "b")];
    await (await write(at, a, "new")).close();
    const old = await write(at, b, "old");
    at.rename(a, b);
    assert.deepEqual(namesOf(at, folder), ["b: file"]);
    assert.equal(await readAt(at, b), "new");
    assert.equal(textOf(old), "old");
    assert.equal(old.state().nlink, 0n);
    await old.close();
    assert.throws(() => at.rename(a, b), code("ENOENT"));
  },

  "a rename moves a folder with all that is in it": async (at, folder) => {
    at.makeFolder(path.join(folder, "from"));
    at.makeFolder(path.join(folder, "to"));
    await (await write(at, path.join(folder, "from", "a"), "text")).close();
    at.rename(path.join(folder, "from"), path.join(folder, "to", "moved"));
    assert.deepEqual(namesOf(at, folder), ["to: folder"]);
    assert.equal(await readAt(at, path.join(folder, "to", "moved", "a")), "text");
  },

  "a link gives a file a second name, which must be free": async (at, folder) => {
    const [a, b] = [path.join(folder, "a"), path.join(folder, "b")];
    await (await write(at, a, "text")).close();
    at.link(a, b);
    assert.equal(at.find(a)?.nlink, 2n);
    assert.equal(at.find(a)?.ino, at.find(b)?.ino);
    assert.throws(() => at.link(a, b), code("EEXIST"));
    assert.throws(() => at.link(path.join(folder, "c"), path.join(folder, "d")), code("ENOENT"));
  },

  "an unlink removes a name, if there is one, but no folder": async (at, folder) => {
    const a = path.join(folder, "a");
    const file = await write(at, a, "text");
    at.unlink(a);
    at.unlink(a);
    assert.deepEqual(at.list(folder), []);
    assert.equal(textOf(file), "text");
    await file.close();
    at.makeFolder(a);
    assert.throws(() => at.unlink(a));
  },

  "a folder is made in one that exists, and removed when it is empty": async (at, folder) => {
    const inner = path.join(folder, "a");
    at.makeFolder(inner);
    const state = at.find(inner);
    assert.equal(Number((state?.mode ?? 0n) & 0o7777n), 0o700);
    assert.deepEqual([state?.isDirectory(), state?.isFile()], [true, false]);
    assert.throws(() => at.makeFolder(inner), code("EEXIST"));
    assert.throws(() => at.makeFolder(path.join(folder, "b", "c")), code("ENOENT"));
    await (await write(at, path.join(inner, "x"), "")).close();
    assert.throws(() => at.removeFolder(inner), code("ENOTEMPTY"));
    at.unlink(path.join(inner, "x"));
    at.removeFolder(inner);
    assert.deepEqual(at.list(folder), []);
  },

  "what was appended or synced is on the disk": async (at, folder) => {
    const a = path.join(folder, "a");
    const file = await write(at, a, "text");
    assert.equal(await at.holds(a, Buffer.from("ext"), 1), true);
    await file.overwrite(Buffer.from("T"), 0, 0);
    await file.sync();
    await at.syncFolder(folder);
    assert.equal(await at.holds(a, Buffer.from("Text"), 0), true);
    await file.close();
    await assert.rejects(at.syncFolder(path.join(folder, "b")), code("ENOENT"));
  },

  "a closed file is of no use": async (at, folder) => {
    const file = await write(at, path.join(folder, "a"), "text");
    await file.close();
    await assert.rejects(file.append(Buffer.from("x"), 0), code("EBADF"));
    await assert.rejects(file.sync(), code("EBADF"));
    assert.equal(await readAt(at, path.join(folder, "a")), "text");
  },

  "a text that a person names comes in chunks": async (at, folder) => {
    const a = path.join(folder, "a");
    await (await write(at, a, "0123456789")).close();
    const named = await at.openText(a, 4);
    assert.equal(named?.bytes, 10);
    const chunks: string[] = [];
    for await (const chunk of named?.text ?? []) chunks.push(chunk.toString());
    assert.deepEqual(chunks, ["0123", "4567", "89"]);
    await assert.rejects(at.openText(path.join(folder, "b"), 4), code("ENOENT"));
  },

  "a change of a file shows in its times": async (at, folder) => {
    const file = await write(at, path.join(folder, "a"), "text");
    const before = file.state();
    await append(file, "more");
    const after = file.state();
    assert.ok(after.mtimeNs >= before.mtimeNs && after.ctimeNs >= before.ctimeNs);
    assert.equal(after.ctimeMs, after.ctimeNs / 1_000_000n);
    await file.close();
  },

  "a folder is on a file system, which has a number": async (at, folder) => {
    const { type, bavail, files, ffree } = at.fileSystem(folder);
    for (const value of [type, bavail, files, ffree]) assert.ok(Number.isSafeInteger(value));
    assert.ok(type > 0);
    assert.throws(() => at.fileSystem(path.join(folder, "b")), code("ENOENT"));
  },
};

async function onSystem(t: TestContext, check: Check): Promise<void> {
  await check(disk, makeFolder(t));
}

async function onSimulation(_t: TestContext, check: Check): Promise<void> {
  const random = new Random("contract");
  const clock = new SimulatedClock(random);
  const rules = new RuleBook();
  const platter = new Platter(clock, rules);
  const simulated = new SimulatedDisk({ platter, clock, random, rules });
  await clock.run(
    (async () => {
      simulated.makeFolder("/data");
      await check(simulated, "/data");
    })(),
  );
}

for (const [name, check] of Object.entries(CHECKS)) {
  test(`on the system's disk, ${name}`, (t) => onSystem(t, check));
  test(`on the simulated disk, ${name}`, (t) => onSimulation(t, check));
}
