/** The program with a channel to its parent process, as node:cluster, pm2 and `fork` start it. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { Client } from "../support/client.ts";
import { makeFolder } from "../support/folders.ts";
import { logLinesOf, messagesOf } from "../support/messages.ts";
import { openStore, readLog, writeLog } from "../support/stores.ts";
import { until } from "../support/watch.ts";
import { forkCli, forkWorker, serveArgs, urlOf } from "../support/workers.ts";

function isRefused(url: string): Promise<boolean> {
  return fetch(url).then(
    () => false,
    () => true,
  );
}

describe("a forked program, whose channel stays open, ends by itself", () => {
  test("serve, at a signal: 0", async (t) => {
    const program = forkCli(t, serveArgs(makeFolder(t)));
    await urlOf(program);
    program.process.kill("SIGTERM");
    assert.deepEqual([(await program.finished).status, messagesOf(program.stderr())], [0, []]);
  });

  test("serve of a folder that is in use: 1, naming the holder", async (t) => {
    const folder = makeFolder(t);
    await openStore(t, folder);
    const { status, stderr } = await forkCli(t, serveArgs(folder)).finished;
    assert.equal(status, 1);
    assert.match(
      messagesOf(stderr).join("\n"),
      new RegExp(`^.*"library" \\(process ${process.pid}\\b.*$`),
    );
  });

  const COMMANDS: readonly [words: string[], status: number][] = [
    [["--version"], 0],
    [["export"], 0],
    [["get", "2"], 1],
    [["srve"], 2],
  ];
  for (const [words, status] of COMMANDS) {
    test(`${words.join(" ")}: ${status}`, async (t) => {
      const folder = makeFolder(t);
      writeLog(folder, '{"id":1,"name":"a"}\n');
      const args =
        words.length === 1 && words[0] !== "export" ? words : [...words, "--data", folder];
      assert.equal((await forkCli(t, args).finished).status, status);
    });
  }

  test("export into a pipe that is read later: 0, and every line is there", async (t) => {
    const folder = makeFolder(t);
    const log = Array.from({ length: 12_000 }, (_, id) => `{"id":${id},"name":"Fern"}\n`).join("");
    writeLog(folder, log);
    const { status, stdout } = await forkCli(t, ["export", "--data", folder]).finished;
    assert.deepEqual([status, stdout === log], [0, true]);
  });
});

describe("a worker of node:cluster", () => {
  test("ends with 0 at a signal", async (t) => {
    const program = forkWorker(t, serveArgs(makeFolder(t)));
    await urlOf(program);
    program.process.kill("SIGTERM");
    assert.deepEqual([(await program.finished).status, messagesOf(program.stderr())], [0, []]);
  });

  test("whose data directory another worker holds serves once that worker has ended", async (t) => {
    const folder = makeFolder(t);
    const first = forkWorker(t, serveArgs(folder));
    await urlOf(first);
    const second = forkWorker(t, serveArgs(folder));
    await until("it waits", () => messagesOf(second.stderr()).length === 1);
    first.process.kill("SIGTERM");
    assert.equal((await first.finished).status, 0);
    assert.equal((await fetch(`${await urlOf(second)}/plants`)).status, 401);
    second.process.kill("SIGTERM");
    assert.equal((await second.finished).status, 0);
  });

  test("that its primary disconnects answers what is in flight, then releases its data directory and ends with 0", async (t) => {
    const folder = makeFolder(t);
    const token = await createToken(folder, { name: "gardener" });
    const program = forkWorker(t, serveArgs(folder));
    const url = await urlOf(program);
    const client = await Client.connect(Number(new URL(url).port));
    t.after(() => client.destroy());
    const body = '{"id":1,"name":"a"}';
    await client.send(
      `POST /plants HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${token}\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n` +
        "Expect: 100-continue\r\n\r\n",
    );
    await client.next(); // 100: it is in flight
    program.worker.disconnect();
    await until("it accepts no more", () => isRefused(url));
    await assert.rejects(startServer(t, ["--data", folder]), /ended before it was ready/);
    await client.send(body);
    assert.equal((await client.next()).status, 200);
    client.destroy(); // node:cluster waits for every connection
    const { status, stderr } = await program.finished;
    assert.deepEqual([status, logLinesOf(stderr).at(-1)?.event], [0, "stopped"]);
    assert.equal(readLog(folder), `${body}\n`);
    assert.equal((await (await startServer(t, ["--data", folder])).stop()).status, 0);
  });
});
