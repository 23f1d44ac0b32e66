/** The client in a page of a real browser, over a proxy that fails. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { buildSync } from "esbuild";
import { encodeNewPlant } from "../../src/client.ts";
import { createToken } from "../../src/index.ts";
import { missingBrowser, startBrowser } from "../support/browser.ts";
import { ROOT } from "../support/package.ts";
import { serve } from "../support/serve.ts";
import { startService } from "../support/service.ts";
import { serveFailing } from "./failing-proxy.ts";

const BROWSER = { skip: missingBrowser(), timeout: 120_000 };
const COUNT = 60;

/** Runs in the page: creates plants, some at a time, and lists them. */
const SCRIPT = `async (url, token, count) => {
  const { PlantClient, encodeNewPlant } = await import("/client.js");
  const client = new PlantClient(url, { token });
  const first = 9223372036854775807n;
  const answered = [];
  let next = 0;
  const work = async () => {
    while (next < count) {
      const plant = { id: first - BigInt(next++), name: "🌱 half \\ud800" };
      const { name } = await client.create(plant);
      answered.push(encodeNewPlant({ id: plant.id, name }));
    }
  };
  await Promise.all(Array.from({ length: 4 }, work));
  const listed = [];
  for await (const plant of client.list()) listed.push(encodeNewPlant(plant));
  const got = encodeNewPlant(await client.get(first));
  const missing = await client.get(1n);
  const conflict = await client.create({ id: first, name: "other" }).catch(({ number }) => number);
  return { answered, listed, got, isMissing: missing === undefined, conflict };
}`;

interface Seen {
  readonly answered: readonly string[];
  readonly listed: readonly string[];
  readonly got: string;
  readonly isMissing: boolean;
  readonly conflict: number;
}

test(
  "a page of another origin creates every plant once through a proxy that fails",
  BROWSER,
  async (t) => {
    const { outputFiles } = buildSync({
      entryPoints: [`${ROOT}src/client.ts`],
      bundle: true,
      format: "esm",
      write: false,
    });
    const page = await serve(t, ({ url }, res) => {
      const isScript = url === "/client.js";
      res.setHeader("Content-Type", isScript ? "text/javascript" : "text/html");
      res.end(isScript ? outputFiles[0]?.text : "<!doctype html><title>a page</title>");
    });
    let token = "";
    const service = await startService(t, {
      corsOrigins: [page.url],
      prepare: async (folder) => {
        token = await createToken(folder, { name: "page", scopes: ["read", "write"] });
      },
    });
    const proxy = await serveFailing(t, service.port);
    const tab = await (await startBrowser(t)).newPage();
    await tab.goto(page.url);
    const given = [proxy.url, token, COUNT].map((value) => JSON.stringify(value));
    const seen = await tab.evaluate<Seen>(`(${SCRIPT})(${given})`);
    const stored = service.logLines();
    assert.equal(seen.answered.length, COUNT);
    assert.deepEqual([...seen.answered].sort(), [...stored].sort());
    assert.deepEqual(seen.listed, stored);
    assert.equal(seen.got, encodeNewPlant({ id: 2n ** 63n - 1n, name: "🌱 half \ud800" }));
    assert.deepEqual([seen.isMissing, seen.conflict], [true, 40006]);
  },
);
