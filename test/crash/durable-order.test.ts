import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { createToken } from "../../src/index.ts";
import { canTrace, traced } from "../faults/machine.ts";
import { readCalls } from "../faults/trace.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/post.ts";
import { readLog } from "../support/stores.ts";
import { until } from "../support/watch.ts";

const LINE = '{"id":7,"name":"Fern","tag":"indoor"}';

test("a create is answered only after its record was written through to the disk", async (t) => {
  if (!canTrace(t)) return;
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "traced" });
  const trace = "trace=openat,close,pwrite64,write,writev,sendto,sendmsg";
  const { read, ...under } = traced(t, ["-e", trace]);
  const server = await startServer(t, ["--data", folder], under);
  assert.equal((await postPlant(server.url, token, LINE)).status, 200);
  server.process.kill("SIGTERM");
  await until("the server has ended", () => server.process.exitCode !== null);
  assert.equal(server.process.exitCode, 0);
  assert.equal(readLog(folder), `${LINE}\n`);

  const calls = readCalls(read());
  const opened = calls.filter(({ name, args }) => {
    return name === "openat" && args.includes(`"${join(folder, "plants.jsonl")}"`);
  });
  assert.equal(opened.length, 2, "one descriptor for reads, and one for appends");
  const log = opened.find(({ args }) => args.includes("O_APPEND"));
  assert.match(log?.args ?? "", /\bO_WRONLY\b.*\bO_DSYNC\b|\bO_DSYNC\b.*\bO_WRONLY\b/);

  const shown = JSON.stringify(`${LINE}\n`);
  const writes = calls.filter(({ name, args }) => /write/.test(name) && args.includes(shown));
  assert.equal(writes.length, 1, "the record is written once");
  const [write] = writes;
  assert.equal(write?.name, "write");
  assert.equal(
    write?.args.split(",")[0],
    log?.result,
    "on the descriptor with O_APPEND and O_DSYNC",
  );
  assert.equal(write?.result, String(LINE.length + 1), "the whole record");
  // If it had been closed, its number could belong to another file now.
  const closed = calls.filter(({ name, args, begin }) => {
    const isBetween = begin > (log?.end ?? Infinity) && begin < (write?.begin ?? 0);
    return isBetween && name === "close" && args === log?.result;
  });
  assert.deepEqual(closed, []);

  // The other writes are those of the trial connection in memory.
  const ours = JSON.stringify("HTTP/1.1 200 OK\r\nContent-Type: application/json").slice(1, -1);
  const answers = calls.filter(({ args }) => args.includes(ours));
  assert.equal(answers.length, 1);
  assert.ok(
    (write?.end ?? Infinity) < (answers[0]?.begin ?? -1),
    "written before the answer began",
  );
});
