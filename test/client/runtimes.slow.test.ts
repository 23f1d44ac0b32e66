/**
 * The client as its users run it, through a proxy that fails: in Node.js, Deno, Bun and a page of Chromium.
 * A runtime that is not on PATH is skipped. Each reports what it saw by a request to the test.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import http, { type IncomingMessage } from "node:http";
import path from "node:path";
import { text as readText } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { buildSync } from "esbuild";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { finish } from "../support/run.ts";
import { serve } from "../support/serve.ts";
import { startService } from "../support/service.ts";
import { TIMEOUT } from "../support/watch.ts";

const COUNT = 60;

/** How a proxy fails, one after the other: HTML, a broken connection, a cut response; before or after the store. */
const FAILURES = ["502", "store 504", "break", "store break", "store cut", "503", "store 502"];

/** A proxy of this port that fails every other request, except preflights of browsers. */
function serveFailing(t: TestContext, port: number) {
  let turn = 0;
  return serve(t, async (req, res) => {
    const { method, url, headers } = req;
    const isPassed = method === "OPTIONS" || ++turn % 2 === 0;
    const failure = isPassed ? "store" : (FAILURES[((turn - 1) / 2) % FAILURES.length] ?? "");
    let stored: IncomingMessage | undefined;
    if (failure.startsWith("store")) {
      const passed = http.request({ port, method, path: url, headers });
      req.pipe(passed);
      stored = await new Promise<IncomingMessage>((resolve) => passed.once("response", resolve));
    }
    const status = /\d+/.exec(failure)?.[0];
    if (failure.includes("break")) req.socket.destroy();
    else if (status !== undefined) res.writeHead(Number(status)).end("<h1>Bad gateway</h1>");
    else if (stored !== undefined) {
      const body = await readText(stored);
      res.writeHead(stored.statusCode ?? 0, stored.headers);
      if (isPassed) res.end(body);
      else res.write(body.slice(0, body.length / 2), () => res.destroy());
    }
  });
}

/** Creates plants, some at a time, lists them, and reports. */
const programFor = (url: string, token: string, report: string) => `
import { encodeNewPlant, PlantClient } from "./client.js";
const client = new PlantClient("${url}", { token: "${token}" });
const answered = [];
let next = 0;
const work = async () => {
  while (next < ${COUNT}) {
    const plant = { id: 9223372036854775807n - BigInt(next++), name: "🌱 half \\ud800" };
    const { name } = await client.create(plant);
    answered.push(encodeNewPlant({ id: plant.id, name }));
  }
};
await Promise.all(Array.from({ length: 4 }, work));
const listed = [];
for await (const plant of client.list()) listed.push(encodeNewPlant(plant));
const conflict = await client.create({ id: 2n ** 63n - 1n, name: "" }).catch(({ number }) => number);
await fetch("${report}", { method: "POST", body: JSON.stringify({ answered, listed, conflict }) });
`;

const CHROMIUM = ["--headless", ...(process.getuid?.() === 0 ? ["--no-sandbox"] : [])];
/** The words that run the program, or show its page. */
const RUNTIMES: readonly [name: string, words: (page: string) => string[]][] = [
  [process.execPath, () => ["program.js"]],
  ["deno", () => ["run", "--allow-net", "program.js"]],
  ["bun", () => ["program.js"]],
  ["chromium", (page) => [...CHROMIUM, "--user-data-dir=profile", page]],
];

for (const [runtime, wordsFor] of RUNTIMES) {
  const name = path.basename(runtime);
  const skip = spawnSync(runtime, ["--version"]).status !== 0 && `needs ${name} on PATH`;
  test(`in ${name} every create resolves once`, { skip, ...TIMEOUT }, async (t) => {
    const folder = makeFolder(t);
    const outfile = path.join(folder, "client.js");
    buildSync({ entryPoints: [`${ROOT}src/client.ts`], bundle: true, format: "esm", outfile });
    let report = (_: string) => {};
    const reported = new Promise<string>((resolve) => {
      report = resolve;
    });
    const page = await serve(t, async (req, res) => {
      if (req.method === "POST") report(await readText(req));
      const isScript = req.url?.endsWith(".js") === true;
      res.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
      const html = '<!doctype html><script type="module" src="/program.js"></script>';
      res.end(isScript ? readFileSync(path.join(folder, path.basename(req.url ?? ""))) : html);
    });
    const service = await startService(t, { corsOrigins: [page.url] });
    const proxy = await serveFailing(t, service.port);
    writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(path.join(folder, "program.js"), programFor(proxy.url, service.token, page.url));
    const child = spawn(runtime, wordsFor(page.url), { cwd: folder });
    const ended = finish(child);
    t.after(() => child.kill() && ended);
    const failed = ended.then(({ stderr }) => Promise.reject(new Error(`no report: ${stderr}`)));
    const { answered, listed, conflict } = JSON.parse(await Promise.race([reported, failed]));
    const stored = service.logLines();
    assert.deepEqual([answered.length, conflict, listed], [COUNT, 40006, stored]);
    assert.deepEqual(answered.sort(), stored.sort());
  });
}
