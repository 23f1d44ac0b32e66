import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { LineWriter } from "../../../src/cli/logging/line-writer.ts";
import { makeFolder } from "../../support/folders.ts";
import { until } from "../../support/watch.ts";

const describeLoss = (lines: number) => `lost ${lines}`;

function openFile(t: TestContext): { fd: number; read: () => string } {
  const path = join(makeFolder(t), "log");
  const fd = openSync(path, "w");
  t.after(() => closeSync(fd));
  return { fd, read: () => readFileSync(path, "utf8") };
}

/** A program that writes lines to a standard error that nobody reads until the test does. */
function writeUnread(t: TestContext, script: string) {
  const source = new URL("../../../src/cli/logging/", import.meta.url);
  const program = `
    import { LineWriter } from "${new URL("line-writer.ts", source)}";
    import { openStandardError } from "${new URL("standard-error.ts", source)}";
    const writer = new LineWriter(openStandardError(), (lines) => "lost " + lines);
    ${script}`;
  const args = ["--import", import.meta.resolve("tsx"), "--input-type=module", "-e", program];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "pipe"] });
  t.after(() => child.kill("SIGKILL"));
  return child;
}

test("lines of one turn leave behind it, whole and in their order", async (t) => {
  const { fd, read } = openFile(t);
  const writer = new LineWriter(fd, describeLoss);
  writer.write("one");
  writer.write("zwölf \u{1f331}");
  assert.equal(read(), "");
  await until("they are written", () => read() !== "");
  assert.equal(read(), "one\nzwölf \u{1f331}\n");
});

test("end() writes at once what waits", (t) => {
  const { fd, read } = openFile(t);
  const writer = new LineWriter(fd, describeLoss);
  writer.write("last words");
  writer.end();
  assert.equal(read(), "last words\n");
});

const LINE = "x".repeat(1023);

test("more than the bound in one turn is no loss where it is taken", (t) => {
  const { fd, read } = openFile(t);
  const writer = new LineWriter(fd, describeLoss);
  for (let at = 0; at < 5000; at++) writer.write(LINE);
  writer.end();
  assert.ok(read() === `${LINE}\n`.repeat(5000));
});

test("lines beyond the bound that nobody takes are dropped, and a later line says how many", async (t) => {
  const path = join(makeFolder(t), "pipe");
  assert.equal(spawnSync("mkfifo", [path]).status, 0);
  const fd = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  t.after(() => closeSync(fd));
  const writer = new LineWriter(fd, describeLoss);
  for (let at = 0; at < 5000; at++) writer.write(LINE);
  let text = "";
  const read = () => {
    text += readSome(fd);
    return text;
  };
  await until("the loss is told", () => /^lost [0-9]+\n$/m.test(read()));
  const lines = text.split("\n");
  const kept = lines.filter((line) => line === LINE).length;
  assert.ok(kept >= 1024 && kept < 5000, `${kept} were kept`);
  assert.deepEqual(lines.slice(kept), [`lost ${5000 - kept}`, ""]);
  writer.write("again");
  await until("the next line comes", () => read().endsWith("\nagain\n"));
});

/** What is in a pipe now. */
function readSome(fd: number): string {
  const chunk = Buffer.alloc(1 << 20);
  try {
    return chunk.toString("latin1", 0, readSync(fd, chunk));
  } catch {
    return "";
  }
}

test("a reader that has stopped holds nobody up; when it goes on, it gets whole lines", async (t) => {
  const child = writeUnread(
    t,
    `let turns = 0;
     const timer = setInterval(() => {
       for (let at = 0; at < 1000; at++) writer.write(String(at).padStart(999, "-"));
       if (++turns === 4) { clearInterval(timer); process.stdout.write("wrote"); }
     }, 1);
     process.stdin.resume();`,
  );
  const [told] = await once(child.stdout, "data"); // and nobody has read a byte of the lines
  assert.equal(String(told), "wrote");
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  await until("the loss is told", () => /^lost [0-9]+\n/m.test(text));
  const lost = Number(/^lost ([0-9]+)$/m.exec(text)?.[1]);
  assert.ok(lost > 0);
  const kept = text
    .split("\n")
    .slice(0, -1)
    .filter((line) => line !== `lost ${lost}`);
  assert.equal(kept.length + lost, 4000);
  for (const line of kept) assert.match(line, /^(?=.{999}$)-+[0-9]{1,3}$/);
});

test("a process that ends waits for a reader that is slow, and so loses no line", async (t) => {
  const child = writeUnread(
    t,
    `for (let at = 0; at < 900; at++) writer.write(String(at).padStart(999, "-"));
     process.once("exit", () => writer.end());
     process.stdout.write("ends", () => process.exit(0));`,
  );
  await once(child.stdout, "data");
  let text = "";
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  await once(child, "close");
  assert.equal(text.split("\n").length - 1, 900);
});

test("lines that nobody reads keep no process from its end", async (t) => {
  const child = writeUnread(t, `for (let at = 0; at < 900; at++) writer.write("x".repeat(999));`);
  assert.deepEqual(await once(child, "exit"), [0, null]);
});

test("a reader that has gone costs its lines and nothing else", async (t) => {
  const child = writeUnread(
    t,
    `process.stdin.once("data", () => {
       writer.write("to nobody");
       setImmediate(() => setImmediate(() => process.exit(0)));
     });
     process.stdout.write("ready");`,
  );
  await once(child.stdout, "data");
  child.stderr.destroy();
  child.stdin.write("go");
  assert.deepEqual(await once(child, "exit"), [0, null]);
});
