/** The OpenAPI document in common tools, with a real server. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, writeFileSync } from "node:fs";
import net, { type AddressInfo } from "node:net";
import path from "node:path";
import { describe, type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { runCli } from "../support/cli.ts";
import { BODIES_OF_ONE_PLANT, INT64_IDS, OTHER_IDS, STRINGS } from "../support/contract-bodies.ts";
import { makeFolder } from "../support/folders.ts";
import { linkPackages, ROOT, whyNotInstalled } from "../support/package.ts";
import { startReadable } from "../support/reading.ts";
import { runToEnd } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { type ServiceOptions, send } from "../support/service.ts";

const HERE = path.join(ROOT, "test/interop");
const tool = (name: string) => path.join(HERE, "node_modules/.bin", name);

/** Writes the document that the command prints into a new folder. */
async function printDocument(t: TestContext): Promise<string> {
  const folder = makeFolder(t);
  const { status, stdout, stderr } = await runCli(["print", "openapi"]);
  assert.equal(status, 0, stderr);
  writeFileSync(path.join(folder, "openapi.json"), stdout);
  return folder;
}

const APP = "https://app.example";

/** A service that allows pages of one origin, and a token with all scopes. */
async function startOpen(
  t: TestContext,
  plants: Parameters<typeof startReadable>[1],
  options: ServiceOptions = {},
) {
  let token = "";
  const service = await startReadable(t, plants, {
    corsOrigins: [APP],
    ...options,
    prepare: async (folder) => {
      token = await createToken(folder, { name: "both", scopes: ["read", "write"] });
    },
  });
  return { ...service, token };
}

describe("the OpenAPI document in common tools", {
  skip: whyNotInstalled("test/interop"),
}, () => {
  test("Redocly's strict lint accepts it", async (t) => {
    const folder = await printDocument(t);
    const words = [tool("redocly"), "lint", "openapi.json", "--extends", "recommended-strict"];
    const { status, stdout, stderr } = await runToEnd([...words, "--format", "json"], {
      cwd: folder,
    });
    assert.equal(status, 0, stdout + stderr);
    assert.deepEqual(JSON.parse(stdout).problems, []);
  });

  test("a client made by openapi-typescript and openapi-fetch compiles and talks to the server", async (t) => {
    const folder = await printDocument(t);
    linkPackages(folder, HERE, ["openapi-fetch", "openapi-typescript-helpers"]);
    linkPackages(folder, ROOT, ["@types/node", "undici-types"]);
    copyFileSync(path.join(HERE, "client/client.ts"), path.join(folder, "client.ts"));
    writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }');
    const settings = { module: "nodenext", target: "es2022", strict: true, types: ["node"] };
    writeFileSync(
      path.join(folder, "tsconfig.json"),
      JSON.stringify({ compilerOptions: settings, files: ["client.ts"] }),
    );
    for (const words of [
      [tool("openapi-typescript"), "openapi.json", "--output", "schema.d.ts"],
      [tool("tsc"), "-p", "."],
    ]) {
      const { status, stdout, stderr } = await runToEnd(words, { cwd: folder });
      assert.equal(status, 0, stdout + stderr);
    }
    const { url, token } = await startOpen(t, []);
    const words = [process.execPath, "client.js", url, token];
    const { status, stdout, stderr } = await runToEnd(words, { cwd: folder });
    assert.equal(status, 0, stderr);
    const fern = { id: 7, name: "Fern", tag: "indoor" };
    assert.deepEqual(JSON.parse(stdout), {
      name: "Fern",
      number: 40006,
      got: fern,
      missing: 40402,
      page: [fern],
      unnamed: 40005,
    });
  });

  test("Prism, as a proxy, finds every answer as described", async (t) => {
    const folder = await printDocument(t);
    const service = await startOpen(t, [{ id: -70n, name: "stored" }]);
    const all = [...calls(service.token), ...refusals(service.token, service.readToken)];
    assert.ok(all.length > 50, `${all.length} calls`);
    await assertDescribed(await startPrism(t, folder, service.url), all);
  });

  test("Prism finds the answer to a body that is too long as described", async (t) => {
    const folder = await printDocument(t);
    // So short that the server reads the rest; it would cut the connection of a long one.
    const { url, token } = await startOpen(t, [], { bodyBytesMax: 20 });
    const proxy = await startPrism(t, folder, url);
    await assertDescribed(proxy, [create(token, '{"id":1,"name":"Ivy"}', 413)]);
  });

  test("Prism reports an answer that is not as described", async (t) => {
    const folder = await printDocument(t);
    const other = net.createServer((socket) => {
      socket.end(
        'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{"id":1}',
      );
    });
    other.listen(0, "127.0.0.1");
    await once(other, "listening");
    t.after(() => other.close());
    const { port } = other.address() as AddressInfo;
    const proxy = await startPrism(t, folder, `http://127.0.0.1:${port}`);
    const { init, path: target } = create("any", '{"id":1,"name":"x"}', 200);
    const answer = await send(`${proxy}${target}`, init);
    assert.notDeepEqual(violations(answer.headers, true), []);
  });
});

/** Asserts that the server answers each call as expected, and that the proxy reports nothing. */
async function assertDescribed(proxy: string, all: readonly Call[]): Promise<void> {
  for (const call of all) {
    const answer = await send(`${proxy}${call.path}`, call.init);
    assert.equal(answer.status, call.status, what(call));
    assert.ok(answer.headers.has("x-request-id"), `Prism itself answered ${what(call)}`);
    assert.deepEqual(violations(answer.headers, call.status < 400), [], answer.text);
  }
}

/** Starts the validating proxy, until the test ends. */
async function startPrism(t: TestContext, folder: string, upstream: string): Promise<string> {
  const port = await freePort();
  const words = ["proxy", "openapi.json", upstream, "--port", String(port), "--cors", "false"];
  const child = spawn(tool("prism"), words, { cwd: folder, stdio: ["ignore", "pipe", "inherit"] });
  t.after(async () => {
    child.kill("SIGKILL");
    await once(child, "close");
  });
  let printed = "";
  await new Promise<void>((resolve, reject) => {
    child.on("close", () => reject(new Error(`Prism ended: ${printed}`)));
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
      if (printed.includes("Prism is listening")) resolve();
    });
  });
  return `http://127.0.0.1:${port}`;
}

interface Violation {
  readonly location: readonly string[];
  readonly message: string;
}

/** The violations that Prism reports for an answer, and for its request if that is valid. */
function violations(headers: Headers, isGood: boolean): Violation[] {
  const all: Violation[] = JSON.parse(headers.get("sl-violations") ?? "[]");
  return all.filter(({ location }) => isGood || location[0] === "response");
}

function what({ path, init: { body } }: Call): string {
  return body instanceof Uint8Array ? Buffer.from(body).toString("utf8", 0, 80) : path;
}

interface Call {
  readonly path: string;
  readonly init: RequestInit & { readonly headers?: Record<string, string> };
  readonly status: number;
}

function create(token: string, body: string | Buffer, status: number): Call {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return {
    path: "/plants",
    init: { method: "POST", headers, body: new Uint8Array(Buffer.from(body)) },
    status,
  };
}

function get(
  token: string,
  target: string,
  status: number,
  more: Record<string, string> = {},
): Call {
  return { path: target, init: { headers: { Authorization: `Bearer ${token}`, ...more } }, status };
}

/** The cases of the contract that a proxy passes on unchanged. */
function* calls(token: string): Generator<Call> {
  yield get(token, "/plants?after=-70", 200); // the empty page
  // Prism passes a body on as JavaScript reads it, so an id beyond 2^53 may equal an earlier one.
  const exact = INT64_IDS.filter(([, id]) => Number.isSafeInteger(Number(id)));
  for (const [spelling] of exact) yield create(token, `{"id":${spelling},"name":"x"}`, 200);
  for (const id of OTHER_IDS.filter((id) => !LOSSY.test(id))) {
    yield create(token, `{"id":${id},"name":"x"}`, 400);
  }
  let id = 1000;
  for (const [, literal] of STRINGS.filter(([, text]) => !text.includes("\\u"))) {
    yield create(token, `{"id":${++id},"name":${literal}}`, 200);
  }
  for (const [what, body] of BODIES_OF_ONE_PLANT.filter(([what]) => !/deep|any order/.test(what))) {
    if (!/double/.test(what)) yield create(token, body, 200);
  }
  yield create("wrong", "{}", 401);
  yield create(token, '{"id":1,"name":"other"}', 400);
  yield get(token, "/plants", 200);
  yield get(token, "/plants?limit=2", 200);
  yield get(token, "/plants?after=-70&limit=1", 200);
  yield get(token, "/plants?limit=0", 400);
  yield get(token, "/plants?after=123456", 400);
  yield get(token, "/plants", 200, { Accept: "application/x-ndjson" });
  yield get(token, "/plants/-70", 200);
  yield get(token, "/plants/-70", 304, { "If-None-Match": "*" });
  yield get(token, "/plants/123456", 404);
  yield get("wrong", "/plants/-70", 401);
}

/**
 * Requests that are refused before they reach the store.
 *
 * Prism itself answers malformed JSON with 400. It passes requests for paths and methods that are not
 * described on, without a check of the answer.
 */
function* refusals(token: string, readToken: string): Generator<Call> {
  const { path, init } = create(token, '{"id":1,"name":"x"}', 200);
  const refused = (status: number, more: Record<string, string>) => {
    return { path, init: { ...init, headers: { ...init.headers, ...more } }, status };
  };
  yield refused(415, { "Content-Type": "text/plain" });
  yield refused(415, { "Content-Encoding": "gzip" });
  yield create(readToken, "{}", 403);
  for (const path of ["/plants", "/plants/-70", "/plants/007"]) {
    yield { path, init: {}, status: 401 };
  }
  yield get(token, "/plants/007", 404);
}

/** Ids that JavaScript changes. */
const LOSSY = /^-?[0-9]{16,}|\.[0-9]{10,}|e-?[0-9]{3,}/i;
