/**
 * The client as its users run it, over a proxy that fails: in Node.js, Deno, Bun and a page of Chromium.
 * A runtime that is not on PATH is skipped. Each reports what it saw by a request to the test.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { text as readText } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { buildSync } from "esbuild";
import { encodeNewPlant } from "../../src/client.ts";
import { createToken } from "../../src/index.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { finish } from "../support/run.ts";
import { serve } from "../support/serve.ts";
import { startService } from "../support/service.ts";
import { TIMEOUT } from "../support/watch.ts";
import { serveFailing } from "./failing-proxy.ts";

const COUNT = 60;

/** Creates plants, some at a time, lists them, and reports. */
function programFor(url: string, token: string, report: string): string {
  return `import { encodeNewPlant, PlantClient } from "./client.js";
const client = new PlantClient(${JSON.stringify(url)}, { token: ${JSON.stringify(token)} });
const first = 9223372036854775807n;
const answered = [];
let next = 0;
const work = async () => {
  while (next < ${COUNT}) {
    const plant = { id: first - BigInt(next++), name: "🌱 half \\ud800" };
    const { name } = await client.create(plant);
    answered.push(encodeNewPlant({ id: plant.id, name }));
  }
};
await Promise.all(Array.from({ length: 4 }, work));
const listed = [];
for await (const plant of client.list()) listed.push(encodeNewPlant(plant));
const got = encodeNewPlant(await client.get(first));
const isMissing = (await client.get(1n)) === undefined;
const conflict = await client.create({ id: first, name: "other" }).catch(({ number }) => number);
const body = JSON.stringify({ answered, listed, got, isMissing, conflict });
await fetch(${JSON.stringify(report)}, { method: "POST", body });
`;
}

const NO_SANDBOX = process.getuid?.() === 0 ? ["--no-sandbox"] : []; // it does not work for root

/** The words that run the program in a folder, or show its page. */
const RUNTIMES: readonly [name: string, words: (folder: string, page: string) => string[]][] = [
  [process.execPath, () => ["program.js"]],
  ["deno", () => ["run", "--allow-net", "program.js"]],
  ["bun", () => ["program.js"]],
  [
    "chromium",
    (folder, page) => ["--headless", ...NO_SANDBOX, `--user-data-dir=${folder}/profile`, page],
  ],
];

/** Serves the page, its program and the client; resolves with what the program reports. */
async function serveProgram(t: TestContext, folder: string) {
  let take: (report: string) => void = () => {};
  const reported = new Promise<string>((resolve) => {
    take = resolve;
  });
  const page = await serve(t, async (req, res) => {
    if (req.method === "POST") take(await readText(req));
    const isScript = req.url?.endsWith(".js") === true;
    res.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
    const html = '<!doctype html><script type="module" src="/program.js"></script>';
    res.end(isScript ? readFileSync(path.join(folder, path.basename(req.url ?? ""))) : html);
  });
  return { url: page.url, reported };
}

for (const [runtime, wordsFor] of RUNTIMES) {
  const name = path.basename(runtime);
  const skip = spawnSync(runtime, ["--version"]).status !== 0 && `needs ${name} on PATH`;
  test(`in ${name} the client creates every plant once`, { skip, ...TIMEOUT }, async (t) => {
    const folder = makeFolder(t);
    const outfile = path.join(folder, "client.js");
    buildSync({ entryPoints: [`${ROOT}src/client.ts`], bundle: true, format: "esm", outfile });
    const page = await serveProgram(t, folder);
    let token = "";
    const service = await startService(t, {
      corsOrigins: [page.url],
      prepare: async (data) => {
        token = await createToken(data, { name: "client", scopes: ["read", "write"] });
      },
    });
    const proxy = await serveFailing(t, service.port);
    writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(path.join(folder, "program.js"), programFor(proxy.url, token, page.url));
    const child = spawn(runtime, wordsFor(folder, page.url), { cwd: folder });
    const ended = finish(child);
    t.after(async () => {
      child.kill();
      await ended;
    });
    const failed = ended.then(({ stderr }) => Promise.reject(new Error(`no report: ${stderr}`)));
    const { answered, listed, ...others } = JSON.parse(await Promise.race([page.reported, failed]));
    const stored = service.logLines();
    assert.equal(answered.length, COUNT);
    assert.deepEqual(answered.sort(), [...stored].sort());
    assert.deepEqual(listed, stored);
    const got = encodeNewPlant({ id: 2n ** 63n - 1n, name: "🌱 half \ud800" });
    assert.deepEqual(others, { got, isMissing: true, conflict: 40006 });
  });
}
