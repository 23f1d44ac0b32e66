/** Processes that write lines to readers that are slow, or have stopped. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { spawnWriter, writeUnread } from "../support/writer-process.ts";

/** After this time a writer has tried to write the lines it had: its own timer is shorter. */
const PASSED_MS = 50;

function openFile(t: TestContext): { fd: number; read: () => string } {
  const path = join(makeFolder(t), "log");
  const fd = openSync(path, "w");
  t.after(() => closeSync(fd));
  return { fd, read: () => readFileSync(path, "utf8") };
}

test(
  "a reader that stops delays nothing; when it continues, it gets whole lines",
  TIMEOUT,
  async (t) => {
    const child = writeUnread(
      t,
      `let turns = 0;
     const timer = setInterval(() => {
       for (let at = 0; at < 1000; at++) writer.write(String(at).padStart(999, "-"));
       if (++turns === 4) { clearInterval(timer); process.stdout.write("wrote"); }
     }, 1);
     process.stdin.resume();`,
    );
    const [first] = await once(child.stdout, "data"); // and no byte of the lines was read
    assert.equal(String(first), "wrote");
    let text = "";
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
      text += chunk;
    });
    await until("the loss is reported", () => /^lost [0-9]+\n/m.test(text));
    const lost = Number(/^lost ([0-9]+)$/m.exec(text)?.[1]);
    assert.ok(lost > 0);
    const kept = text
      .split("\n")
      .slice(0, -1)
      .filter((line) => line !== `lost ${lost}`);
    assert.equal(kept.length + lost, 4000);
    for (const line of kept) assert.match(line, /^(?=.{999}$)-+[0-9]{1,3}$/);
  },
);

test("a process that ends waits for a slow reader, so no line is lost", TIMEOUT, async (t) => {
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

test("a process that ends at once still writes the line that a thread has and the line that waits, each once", async (t) => {
  const { fd, read } = openFile(t);
  const child = spawnWriter(
    t,
    `const { pbkdf2 } = await import("node:crypto");
     for (let at = 0; at < 8; at++) pbkdf2("", "", 100_000, 64, "sha512", () => {}); // no thread is free
     process.once("exit", () => writer.end());
     writer.write("first");
     setTimeout(() => {
       writer.write("last words");
       process.exit(0);
     }, ${PASSED_MS});`,
    fd,
  );
  assert.deepEqual(await once(child, "exit"), [0, null]);
  assert.deepEqual(read().split("\n").sort(), ["", "first", "last words"]);
});

for (const [says, end] of [
  ["", ""],
  [", not even its last words", `process.once("exit", () => writer.end());`],
]) {
  test(`lines that nobody reads do not keep a process alive${says}`, TIMEOUT, async (t) => {
    const lines = `for (let at = 0; at < 900; at++) writer.write("x".repeat(999));`;
    const child = writeUnread(t, `${lines} ${end}`);
    assert.deepEqual(await once(child, "exit"), [0, null]);
  });
}

test("a reader that has gone loses its lines, and nothing else happens", TIMEOUT, async (t) => {
  const child = writeUnread(
    t,
    `process.stdin.once("data", () => {
       writer.write("to nobody");
       setTimeout(() => process.exit(0), ${PASSED_MS});
     });
     process.stdout.write("ready");`,
  );
  await once(child.stdout, "data");
  child.stderr.destroy();
  child.stdin.write("go");
  assert.deepEqual(await once(child, "exit"), [0, null]);
});
