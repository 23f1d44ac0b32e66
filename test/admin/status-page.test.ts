import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "../../src/admin/status-page.ts";
import { startAdmin } from "../support/admin.ts";
import { UNSHIPPED } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

test("the page loads nothing from elsewhere, and its policy names its only style and script", async (t) => {
  assert.deepEqual(STATUS_PAGE.match(/ (?:src|srcset|action)=/g), null);
  assert.deepEqual(
    Array.from(STATUS_PAGE.matchAll(/<link [^>]*href="(\w+):/g), ([, scheme]) => scheme),
    ["data"],
  );
  assert.doesNotMatch(STATUS_PAGE, / style=| on[a-z]+=|innerHTML|insertAdjacentHTML/);
  assert.equal(STATUS_PAGE.match(/<script>/g)?.length, 1);
  assert.equal(STATUS_PAGE.match(/<style>/g)?.length, 1);
  assert.doesNotMatch(STATUS_PAGE_POLICY, /unsafe|\*|https?:/);
  const { headers } = await (await startAdmin(t)).get("/");
  assert.equal(headers["content-security-policy"], STATUS_PAGE_POLICY);
});

test("the picture of the page in the README is a PNG of at most 60 KB", () => {
  const png = readFileSync(path.join(ROOT, UNSHIPPED));
  assert.equal(png.toString("latin1", 0, 8), "\x89PNG\r\n\x1a\n");
  assert.ok(png.length <= 60_000, `${png.length}`);
});

test("every link of the page leads to an answer of its listener, the metrics, health and description among them", async (t) => {
  const admin = await startAdmin(t);
  const places = Array.from(STATUS_PAGE.matchAll(/<a href="([^"]*)"/g), ([, place = ""]) => place);
  for (const place of places) assert.equal((await admin.get(`/${place}`)).status, 200, place);
  const wanted = ["metrics", "healthz", "readyz", "openapi.json"];
  assert.deepEqual([...new Set(places)].sort(), wanted.sort());
});
