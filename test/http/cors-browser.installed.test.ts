/** The service used from a real page of another origin, in a real browser. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { missingBrowser, startBrowser } from "../support/browser.ts";
import { startReadable } from "../support/reading.ts";
import { type Served, serve } from "../support/serve.ts";

const BROWSER = { skip: missingBrowser(), timeout: 60_000 };

/** The result of one call of the page, as its script sees it. */
interface Seen {
  readonly status: number;
  readonly text: string;
  readonly headers: Record<string, string | null>;
  /** The browser hid the answer from the script. */
  readonly failure?: string;
}

interface Call {
  readonly path: string;
  readonly init?: Record<string, unknown>;
}

/** Runs in the page: makes the calls, one after the other. */
const SCRIPT = `async (base, calls) => {
  const names = ["ETag", "Link", "WWW-Authenticate", "X-Request-Id"];
  const seen = [];
  for (const { path, init } of calls) {
    try {
      const answer = await fetch(base + path, init);
      const headers = Object.fromEntries(names.map((name) => [name, answer.headers.get(name)]));
      seen.push({ status: answer.status, text: await answer.text(), headers });
    } catch (error) {
      seen.push({ failure: String(error) });
    }
  }
  return seen;
}`;

/** Serves an empty page. */
function servePage(t: TestContext): Promise<Served> {
  return serve(t, (_, res) => {
    res.setHeader("Content-Type", "text/html");
    res.end("<!doctype html><title>a page</title>");
  });
}

/** What a page of `pageHost` sees if pages of 127.0.0.1 are allowed. */
async function visit(
  t: TestContext,
  pageHost: string,
  callsFor: (token: string) => Call[],
): Promise<readonly Seen[]> {
  const { port } = await servePage(t);
  let token = "";
  const plants = [1n, 2n, 3n].map((id) => ({ id, name: `plant ${id}` }));
  const service = await startReadable(t, plants, {
    corsOrigins: [`http://127.0.0.1:${port}`],
    prepare: async (folder) => {
      token = await createToken(folder, { name: "page", scopes: ["read", "write"] });
    },
  });
  const page = await (await startBrowser(t)).newPage();
  await page.goto(`http://${pageHost}:${port}/`);
  const [base, calls] = [service.url, callsFor(token)].map((value) => JSON.stringify(value));
  return page.evaluate(`(${SCRIPT})(${base}, ${calls})`);
}

function post(token: string, body: string, more: Record<string, string> = {}): Call {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json", ...more };
  return { path: "/plants", init: { method: "POST", headers, body } };
}

function get(token: string, path: string, more: Record<string, string> = {}): Call {
  return { path, init: { headers: { Authorization: `Bearer ${token}`, ...more } } };
}

test(
  "a page of a named origin uses every operation and reads every refusal",
  BROWSER,
  async (t) => {
    const seen = await visit(t, "127.0.0.1", (token) => [
      post(token, '{"id":9,"name":"Fern","tag":"indoor"}'),
      post(token, '{"id":9,"name":"Ivy"}'),
      post("wrong", "{}"),
      post(token, "{}", { "X-Request-Id": "x".repeat(20_000) }),
      get(token, "/plants/9"),
      get(token, "/plants/10"),
      get(token, "/plants?limit=1"),
      get(token, "/plants?after=3", { Accept: "application/x-ndjson" }),
      { path: "/plants", init: { method: "HEAD", headers: { Authorization: `Bearer ${token}` } } },
    ]);
    const results = seen.map(({ status, text: body, failure }) => {
      return failure ?? [status, body.startsWith('{"error"') ? JSON.parse(body).error : body];
    });
    const first = '{"id":1,"name":"plant 1"}';
    const fern = '{"id":9,"name":"Fern","tag":"indoor"}';
    assert.deepEqual(results, [
      [200, '{"name":"Fern","tag":"indoor"}'],
      [400, 40006],
      [401, 40102],
      [431, 43101],
      [200, fern],
      [404, 40402],
      [200, `[${first}]`],
      [200, `${fern}\n`],
      [200, ""],
    ]);
    assert.match(seen[2]?.headers?.["WWW-Authenticate"] ?? "", /^Bearer .*invalid_token/);
    assert.match(seen[4]?.headers?.ETag ?? "", /^"/);
    for (const { headers } of seen) assert.match(headers["X-Request-Id"] ?? "", /^[\w-]{1,64}$/);
    assert.equal(seen[6]?.headers?.Link, '<?limit=1&after=1>; rel="next"');
  },
);

test("a page of any other origin can read no answer", BROWSER, async (t) => {
  const seen = await visit(t, "localhost", (token) => [
    post(token, '{"id":9,"name":"Fern"}'),
    get(token, "/plants/1"),
    { path: "/plants" },
  ]);
  for (const { failure } of seen) assert.match(failure ?? "", /TypeError/);
  assert.equal(seen.length, 3);
});
