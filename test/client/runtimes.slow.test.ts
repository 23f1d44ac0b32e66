/**
 * The client as its users run it: in Node.js, Deno and Bun, through a proxy that fails, while the server is killed and
 * stopped. A runtime that is not on PATH is skipped.
 */
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
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
import { freePort, serve } from "../support/service.ts";
import { readLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";

/** A proxy of this port that fails every other request, before or after the store. */
function serveFailing(t: TestContext, port: number) {
  let turn = 0;
  return serve(t, async (req, res) => {
    const { method, url, headers } = req;
    const isPassed = ++turn % 2 === 0;
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
const programFor = (url: string, token: string) => `
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
console.log(JSON.stringify({ created, listed, conflict }));
`;
const COUNT = 200;

for (const [runtime, ...words] of [
  [process.execPath],
  ["deno", "run", "--allow-net"],
  ["bun"],
] as const) {
  const skip = spawnSync(runtime, ["--version"]).status !== 0 && `needs ${runtime} on PATH`;
  test(`in ${path.basename(runtime)} every create resolves once`, {
    skip,
    ...TIMEOUT,
  }, async (t) => {
    const [folder, data] = [makeFolder(t), makeFolder(t)];
    const token = await createToken(data, { name: "client", scopes: ["read", "write"] });
    const port = await freePort();
    const options = ["--data", data, "--port", `${port}`];
    const proxy = await serveFailing(t, port);
    const outfile = path.join(folder, "client.js");
    buildSync({ entryPoints: [`${ROOT}src/client.ts`], bundle: true, format: "esm", outfile });
    writeFileSync(path.join(folder, "package.json"), '{ "type": "module" }');
    writeFileSync(path.join(folder, "program.js"), programFor(proxy.url, token));
    const child = spawn(runtime, [...words, "program.js"], { cwd: folder });
    const ended = finish(child);
    t.after(() => child.kill() && ended);
    const lines = () => readLog(data).split("\n").slice(0, -1);
    for (const [round, signal] of (["SIGKILL", "SIGTERM"] as const).entries()) {
      const server = await startServer(t, options);
      await until("plants are created", () => lines().length > 50 * (round + 1));
      await server.stop(signal);
    }
    await startServer(t, options);
    const { created, listed, conflict } = JSON.parse((await ended).stdout);
    assert.deepEqual([created.length, conflict, listed], [COUNT, 40006, lines()]);
    assert.deepEqual(created.sort(), lines().sort());
  });
}
