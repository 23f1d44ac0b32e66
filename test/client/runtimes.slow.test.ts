/**
 * The client as its users run it: in Node.js, Deno, Bun and a page of Chromium, through a proxy that fails, while the
 * server is killed and stopped. A runtime that is not on PATH is skipped. Each reports what it saw by a request.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import http from "node:http";
import path from "node:path";
import { text as readText } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { buildSync } from "esbuild";
import { createToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { finish } from "../support/run.ts";
import { freePort, serve } from "../support/serve.ts";
import { readLog } from "../support/stores.ts";
import { makeLatch, TIMEOUT, until } from "../support/watch.ts";

/** A proxy of this port that fails every other request, before or after the store. */
function serveFailing(t: TestContext, port: number) {
  let turn = 0;
  return serve(t, async (req, res) => {
    const { method, url, headers } = req;
    const isPassed = method === "OPTIONS" || ++turn % 2 === 0;
    const failure = isPassed ? "" : ["page", "break", "cut"][turn % 3];
    if (failure === "page") return res.writeHead(502).end("<h1>Bad gateway</h1>");
    const passed = http.request({ port, method, path: url, headers });
    req.pipe(passed);
    const [stored] = await once(passed, "response").catch(() => []);
    if (stored === undefined || failure === "break") return req.socket.destroy();
    const body = await readText(stored).catch(() => "");
    res.writeHead(stored.statusCode, stored.headers);
    if (failure === "") return res.end(body);
    return res.write(body.slice(0, body.length / 2), () => res.destroy());
  });
}

/** Creates plants, four at a time, lists them, and reports. */
const programFor = (url: string, token: string, report: string) => `
import { encodeNewPlant, PlantClient } from "./client.js";
const client = new PlantClient("${url}", { token: "${token}" });
const [created, listed] = [[], []];
let next = 0;
const work = async () => {
  while (next < ${COUNT}) {
    const plant = { id: 9223372036854775807n - BigInt(next++), name: "🌱 half \\ud800" };
    created.push(encodeNewPlant({ ...plant, ...await client.create(plant) }));
  }
};
await Promise.all([work(), work(), work(), work()]);
for await (const plant of client.list()) listed.push(encodeNewPlant(plant));
const conflict = await client.create({ id: 2n ** 63n - 1n, name: "" }).catch(({ number }) => number);
await fetch("${report}", { method: "POST", body: JSON.stringify({ created, listed, conflict }) });
`;
const COUNT = 200;

const CHROMIUM = ["--headless", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
/** The words that run the program, or show its page. */
const RUNTIMES: Readonly<Record<string, (page: string) => string[]>> = {
  [process.execPath]: () => ["program.js"],
  deno: () => ["run", "--allow-net", "program.js"],
  bun: () => ["program.js"],
  chromium: (page) => [...CHROMIUM, "--user-data-dir=profile", page],
};

for (const [runtime, wordsFor] of Object.entries(RUNTIMES)) {
  const skip = spawnSync(runtime, ["--version"]).status !== 0 && `needs ${runtime} on PATH`;
  test(`in ${path.basename(runtime)} every create resolves once`, {
    skip,
    ...TIMEOUT,
  }, async (t) => {
    const [folder, data] = [makeFolder(t), makeFolder(t)];
    const token = await createToken(data, { name: "client", scopes: ["read", "write"] });
    let report = "";
    const reported = makeLatch();
    const page = await serve(t, async (req, res) => {
      if (req.method === "POST") report = await readText(req);
      if (report !== "") reported.release();
      const isScript = req.url?.endsWith(".js") === true;
      res.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
      const html = '<!doctype html><script type="module" src="/program.js"></script>';
      res.end(isScript ? readFileSync(path.join(folder, path.basename(req.url ?? ""))) : html);
    });
    const port = await freePort();
    const options = ["--data", data, "--port", `${port}`, "--cors-origin", page.url];
    const proxy = await serveFailing(t, port);
    const outfile = path.join(folder, "client.js");
    buildSync({ entryPoints: [`${ROOT}src/client.ts`], bundle: true, format: "esm", outfile });
    writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(path.join(folder, "program.js"), programFor(proxy.url, token, page.url));
    const child = spawn(runtime, wordsFor(page.url), { cwd: folder });
    const ended = finish(child);
    t.after(() => child.kill() && ended);
    const lines = () => readLog(data).split("\n").slice(0, -1);
    for (const [round, signal] of (["SIGKILL", "SIGTERM"] as const).entries()) {
      const server = await startServer(t, options);
      await until("plants are created", () => lines().length > 50 * (round + 1));
      await server.stop(signal);
    }
    await startServer(t, options);
    await Promise.race([reported.released, ended]);
    const { created, listed, conflict } = JSON.parse(report);
    assert.deepEqual([created.length, conflict, listed], [COUNT, 40006, lines()]);
    assert.deepEqual(created.sort(), lines().sort());
  });
}
