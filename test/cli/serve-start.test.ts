import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, writeFileSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { readArgs, UsageError } from "../../src/cli/command.ts";
import { serve } from "../../src/cli/serve.ts";
import { createToken, listTokens } from "../../src/index.ts";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { type LogLine, logLinesOf, messagesOf } from "../support/messages.ts";
import { postPlant } from "../support/post.ts";
import type { Finished } from "../support/run.ts";
import { send } from "../support/service.ts";
import { readLog } from "../support/stores.ts";
import { NEEDS_TERMINAL, terminalArgs } from "../support/terminal.ts";
import { until } from "../support/watch.ts";

/** A run mostly waits for its process to start, so several run at once. */
const AT_ONCE = { concurrency: 4 };

/** A port that another program listens on. */
async function takePort(t: TestContext): Promise<string> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close());
  return String((server.address() as AddressInfo).port);
}

function makeFile(path: string): string {
  writeFileSync(path, "");
  return path;
}

describe("a start that fails gives the reason in one line on standard error", AT_ONCE, () => {
  test("a busy port of the admin listener: status 1, naming the option", async (t) => {
    const admin = `127.0.0.1:${await takePort(t)}`;
    const args = ["serve", "--port", "0", "--admin", admin, "--data", makeFolder(t)];
    const end = await runCli(args);
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    assert.match(onlyMessage(end), / --admin$/);
  });

  test("a busy port: status 1, naming it", async (t) => {
    const port = await takePort(t);
    const end = await runCli(["serve", "--port", port, "--data", makeFolder(t)]);
    assert.deepEqual([end.status, end.stdout], [1, ""]);
    assert.match(onlyMessage(end), new RegExp(`:${port}\\b`));
  });

  const FOREIGN: readonly [host: string, named: string][] = [
    ["192.0.2.1", " 192.0.2.1:0:"], // both kept for documentation, RFC 5737 and RFC 3849
    ["2001:db8::1", " [2001:db8::1]:0:"],
  ];
  for (const [host, named] of FOREIGN) {
    test(`an address of no interface here, ${host}: status 1, naming it`, async (t) => {
      const end = await runCli(["serve", "--port", "0", "--host", host, "--data", makeFolder(t)]);
      assert.deepEqual([end.status, end.stdout], [1, ""]);
      assert.ok(onlyMessage(end).includes(named), onlyMessage(end));
    });
  }

  const FOLDERS: readonly [fault: string, make: (parent: string) => string][] = [
    ["a file in place of the folder", (parent) => makeFile(join(parent, "file"))],
    // Not even root may do this.
    ["a folder that cannot be made", () => "/sys/plant-store-test"],
    ["a folder that cannot be written to", () => "/sys"],
  ];
  for (const [fault, make] of FOLDERS) {
    test(`${fault}: status 1, naming it`, async (t) => {
      const data = make(makeFolder(t));
      const end = await runCli(["serve", "--port", "0", "--data", data]);
      assert.deepEqual([end.status, end.stdout], [1, ""]);
      const message = messagesOf(end.stderr).at(-1) ?? "";
      assert.ok(message.includes(`"${data}"`), message);
    });
  }

  test("an invalid base path: status 2, and no folder was made", async (t) => {
    const data = join(makeFolder(t), "data");
    const end = await runCli(["serve", "--port", "0", "--base-path", "garden", "--data", data]);
    assert.deepEqual([end.status, end.stdout], [2, ""]);
    assert.match(end.stderr, /^plant-store: [^\n]*"garden"[^\n]*\n$/);
    assert.equal(existsSync(data), false);
  });
});

const VALUES: readonly [option: string, good: string[], bad: string[]][] = [
  ["port", ["0", "1", "65535"], ["65536", "80.5", "http", ""]],
  ["host", ["::1", "localhost"], [""]],
  ["cors-origin", ["https://app.example", "*"], ["app.example", "https://app.example/", "a,b"]],
  // Node's timers take at most 2^31-1 ms: a longer timer fires at once.
  ["request-timeout-ms", ["1", "2147483647"], ["0", "2147483648", "10s"]],
];

for (const [option, good, bad] of VALUES) {
  test(`serve takes ${good.join(" and ")} for --${option}, not ${JSON.stringify(bad)}`, () => {
    for (const text of good) {
      const { options } = readArgs(serve, [`--${option}=${text}`]);
      const name = option.replace(/-./g, ([, letter = ""]) => letter.toUpperCase());
      assert.equal(String(options[name]), text);
    }
    for (const text of bad) {
      assert.throws(() => readArgs(serve, [`--${option}=${text}`]), UsageError, text);
    }
  });
}

/** Starts a server at a terminal, and returns what it shows once it is ready. */
async function showAtTerminal(t: TestContext, args: readonly string[]): Promise<string> {
  const child = spawn("script", terminalArgs(["serve", "--port", "0", "--log", "off", ...args]));
  t.after(() => child.kill("SIGKILL"));
  let shown = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    shown += text.replaceAll("\r\n", "\n");
  });
  await until("it is ready", () => /^plant-store listening on .*\n[\s\S]*\n$/.test(shown));
  return shown;
}

/** A curl line that is printed with the ready line: the first creates, the second lists. */
function curlLine(shown: string, at = 0): string {
  return shown.match(/(?<=^ *)curl .*$/gm)?.[at] ?? "";
}

/** The record of `--first-token`. */
function firstTokenOf(stdout: string): LogLine | undefined {
  return logLinesOf(stdout).find(({ event }) => event === "first_token");
}

function onlyMessage({ stderr }: Finished): string {
  const [message = "", ...others] = messagesOf(stderr);
  assert.deepEqual(others, []);
  return message;
}

/** Runs the line in a shell if there is curl, and returns the body of the answer. */
async function runCurlLine(line: string): Promise<string> {
  const run = promisify(execFile);
  const hasCurl = await run("curl", ["--version"]).then(
    () => true,
    () => false,
  );
  if (hasCurl) return (await run("sh", ["-c", line])).stdout;
  const headers = [...line.matchAll(/-H '([^:]+): ([^']+)'/g)].map(([, name, value]) => {
    return [name, value] as [string, string];
  });
  const url = /http:[^\s']+/.exec(line)?.[0] ?? "";
  const body = /-d '([^']+)'/.exec(line)?.[1] ?? null;
  return (await send(url, { method: body === null ? "GET" : "POST", headers, body })).text;
}

const MONSTERA = '{"name":"Monstera deliciosa","tag":"tropical"}';

test(
  "at a terminal --first-token prints curl lines that work as printed",
  NEEDS_TERMINAL,
  async (t) => {
    const folder = join(makeFolder(t), "data");
    const args = ["--first-token", "--admin", "127.0.0.1:0", "--data", folder];
    const shown = await showAtTerminal(t, args);
    assert.match(shown, /^status page: http:\/\/127\.0\.0\.1:[1-9][0-9]*$/m);
    assert.equal(await runCurlLine(curlLine(shown)), MONSTERA);
    const line = `{"id":1,${MONSTERA.slice(1)}`;
    assert.equal(readLog(folder), `${line}\n`);
    assert.equal(await runCurlLine(curlLine(shown, 1)), `[${line}]`);
  },
);

test("--first-token prints a record with the token, once", async (t) => {
  const folder = join(makeFolder(t), "data");
  const args = ["--first-token", "--data", folder];
  const server = await startServer(t, args);
  const token = firstTokenOf(server.stdout())?.token;
  assert.equal((await postPlant(server.url, `${token}`, '{"id":1,"name":"a"}')).status, 200);
  const end = await server.stop();
  assert.equal(new Set(end.stdout.match(/\bpst_[\w-]+/g)).size, 1, end.stdout);
  assert.doesNotMatch(end.stderr, /pst_/); // a token must not be logged

  const again = await startServer(t, args);
  const { stdout, stderr } = await again.stop();
  assert.doesNotMatch(stdout + stderr, /pst_/);
  assert.equal(firstTokenOf(stdout)?.token, null);
  assert.equal((await listTokens(folder)).length, 1);
});

test("--first-token does nothing if there is a live token", async (t) => {
  const folder = makeFolder(t);
  await createToken(folder, { name: "gardener" });
  const server = await startServer(t, ["--data", folder], {
    env: { PLANT_STORE_FIRST_TOKEN: "1" },
  });
  const { stdout, stderr } = await server.stop();
  assert.doesNotMatch(stdout + stderr, /pst_/);
  assert.deepEqual(
    (await listTokens(folder)).map(({ name }) => name),
    ["gardener"],
  );
});

test("a start that fails creates no first token, which nobody would have seen", async (t) => {
  const args = ["--first-token", "--data", makeFolder(t)];
  const failed = await runCli(["serve", "--port", await takePort(t), ...args]);
  assert.equal(failed.status, 1);
  const server = await startServer(t, args);
  const shown = failed.stdout + failed.stderr + (await server.stop()).stdout;
  assert.equal(new Set(shown.match(/\bpst_[\w-]+/g)).size, 1, shown);
});

test("the curl line works with a base path of shell characters", NEEDS_TERMINAL, async (t) => {
  // All of these are allowed in a path (RFC 3986 section 3.3).
  const basePath = "/it's;$(id)&*!/garden";
  const args = ["--first-token", "--base-path", basePath, "--data", makeFolder(t)];
  assert.equal(await runCurlLine(curlLine(await showAtTerminal(t, args))), MONSTERA);
});

test("options come from variables too, a flag is preferred, and --base-path comes before /plants", async (t) => {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "gardener" });
  const server = await startServer(t, [], {
    // The server could not use the port of the variable; startServer gives --port 0.
    env: {
      PLANT_STORE_DATA: folder,
      PLANT_STORE_BASE_PATH: "/garden/",
      PLANT_STORE_PORT: await takePort(t),
    },
  });
  assert.match(server.url, /^http:\/\/127\.0\.0\.1:[1-9][0-9]*\/garden$/);
  const fern = '{"id":1,"name":"Fern"}';
  assert.equal((await postPlant(server.url, token, fern)).status, 200);
  assert.equal((await postPlant(new URL(server.url).origin, token, fern)).status, 404);
});

test("pages of named origins are allowed, and no others", async (t) => {
  const named = ["https://a.example", "https://b.example:8443"];
  const args = named.map((origin) => `--cors-origin=${origin}`);
  const { url } = await startServer(t, [...args, "--data", makeFolder(t)]);
  for (const origin of [...named, "https://c.example"]) {
    const { headers } = await send(`${url}/plants`, { headers: { Origin: origin } });
    const expected = named.includes(origin) ? origin : null;
    assert.equal(headers.get("access-control-allow-origin"), expected);
  }
});
