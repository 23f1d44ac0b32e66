import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { before, describe, type TestContext, test } from "node:test";
import { STATUS_PAGE, STATUS_PAGE_POLICY } from "../../src/admin/status-page.ts";
import { batches, requests } from "../../src/core/channels.ts";
import { type Admin, startAdmin } from "../support/admin.ts";
import { missingBrowser, type Page, startBrowser } from "../support/browser.ts";
import { makeFolder } from "../support/folders.ts";

/** The folder for screenshots, which are kept if it is set. */
const SHOTS = process.env.SCREENSHOTS;

test("the page loads nothing from elsewhere, and its policy names its only style and script", () => {
  const places = [...STATUS_PAGE.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, place]) => place);
  assert.deepEqual(
    places.filter((place) => !place?.startsWith("data:")),
    ["metrics"],
  );
  assert.doesNotMatch(STATUS_PAGE, / style=| on[a-z]+=|innerHTML|insertAdjacentHTML/);
  assert.equal(STATUS_PAGE.match(/<script>/g)?.length, 1);
  assert.equal(STATUS_PAGE.match(/<style>/g)?.length, 1);
  assert.doesNotMatch(STATUS_PAGE_POLICY, /unsafe|\*|https?:/);
});

/** A store after some requests, and a token whose name is markup, as another token check may return it. */
async function startBusy(t: TestContext): Promise<Admin> {
  const admin = await startAdmin(t);
  admin.status.known = {
    plants: 1_234_567,
    logBytes: 64_000_000,
    queueBytes: 2048,
    checkpointBytes: 63_000_000,
  };
  admin.status.listed = [
    { name: "<b>markup</b>", scopes: ["read", "write"], expiresAt: Date.now() + 86_400_000 },
    { name: "gardener", scopes: ["write"], expiresAt: undefined },
  ];
  batches.publish({ log: "x", records: 40, bytes: 4000, syncMs: 3 });
  requests.publish({
    method: "POST",
    path: "/plants",
    status: 400,
    error: 40006,
    durationMs: 1,
    bodyBytes: 9,
    requestId: "a-1",
    token: "gardener",
  });
  return admin;
}

interface Visit {
  readonly page: Page;
  /** Every message of the browser, and every address that it requested. */
  readonly complaints: string[];
  readonly asked: Set<string>;
}

const skip = missingBrowser();

describe("in a real Chromium", { skip: skip ?? false, timeout: 60_000 }, () => {
  before(() => {
    if (SHOTS !== undefined) mkdirSync(SHOTS, { recursive: true });
  });

  async function visit(
    t: TestContext,
    admin: Admin,
    width = 375,
    scheme = "light",
  ): Promise<Visit> {
    const page = await (await startBrowser(t)).newPage();
    const complaints: string[] = [];
    const asked = new Set<string>();
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("request", (request) => asked.add(request.url()));
    await page.setViewport({ width, height: 800 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(admin.server.url);
    await page.waitForFunction('document.getElementById("plants").textContent !== "–"');
    return { page, complaints, asked };
  }

  const text = (page: Page, id: string) =>
    page.evaluate<string>(`document.getElementById(${JSON.stringify(id)}).innerText`);

  test("it shows the store, its errors and its tokens, and sends requests to its server only", async (t) => {
    const admin = await startBusy(t);
    const { page, complaints, asked } = await visit(t, admin);
    assert.equal(await text(page, "state"), "ready");
    assert.match(await text(page, "plants"), /^1.234.567$/);
    assert.match(await text(page, "errors"), /40006\s+conflict\s+1\s+/);
    assert.match(await text(page, "tokens"), /<b>markup<\/b>\s+read write\s+\d{4}-\d\d-\d\d/);
    assert.match(await text(page, "tokens"), /gardener\s+write\s+never/);
    assert.match(await text(page, "checkpoint"), /covers all but the last 977 KiB/);
    assert.equal(await page.evaluate('document.querySelectorAll("b > b, td b").length'), 0);
    for (const plot of ["creates", "syncs"]) {
      await page.waitForFunction(
        `document.querySelector("#${plot} path").getAttribute("d") !== ""`,
      );
    }
    assert.match(await text(page, "creates-top"), /\b40\b/);
    assert.match(await text(page, "syncs-top"), /\b3\b/);
    assert.match(await text(page, "queue"), /\b2\b/);
    const { url } = admin.server;
    assert.deepEqual([...asked].filter((address) => !address.startsWith("data:")).sort(), [
      `${url}/`,
      `${url}/status.json`,
    ]);
    assert.deepEqual(complaints, []);
  });

  test("it shows no peak and no checkpoint for a store that has just started", async (t) => {
    t.mock.method(Date, "now", () => 1_800_000_000_500); // the first second is not over
    const { page } = await visit(t, await startAdmin(t));
    assert.equal(await text(page, "rate"), "0 /s");
    assert.equal(await text(page, "creates-top"), "–");
    assert.equal(await text(page, "checkpoint"), "none yet");
    assert.equal(
      await page.evaluate('document.querySelector("#creates path").getAttribute("d")'),
      "",
    );
  });

  test("it shows each change of state, and when the server is gone", async (t) => {
    const admin = await startBusy(t);
    const { page } = await visit(t, admin);
    admin.status.current = "draining";
    await page.waitForFunction('document.getElementById("state").className === "draining"');
    assert.match(await page.evaluate<string>("document.title"), /draining/);
    await admin.server.close();
    await page.waitForFunction('document.getElementById("state").className === "silent"');
  });

  test("the policy blocks every other script and style", async (t) => {
    const { page } = await visit(t, await startBusy(t));
    await page.evaluate(`{
      const script = document.createElement("script");
      script.textContent = "window.owned = 1";
      document.body.append(script);
      document.body.setAttribute("style", "opacity: 0.5");
    }`);
    assert.equal(await page.evaluate("window.owned === undefined"), true);
    assert.equal(await page.evaluate("getComputedStyle(document.body).opacity"), "1");
  });

  for (const scheme of ["light", "dark"]) {
    for (const width of [375, 1200]) {
      test(`it fits ${width} px, and can be read in ${scheme}`, async (t) => {
        const { page } = await visit(t, await startBusy(t), width, scheme);
        assert.equal(await page.evaluate("document.documentElement.scrollWidth"), width);
        // WCAG 2.2, 1.4.3: every text has a contrast of 4.5 to 1 against its background.
        assert.ok((await page.evaluate<number>(LOWEST_CONTRAST)) >= 4.5);
        const folder = SHOTS ?? makeFolder(t);
        await page.screenshot({ path: join(folder, `${scheme}-${width}.png`), fullPage: true });
      });
    }
  }
});

/** The lowest contrast of any text against its background, by the formula of WCAG. */
const LOWEST_CONTRAST = `(() => {
  const channels = (color) => color.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => [r, g, b]
    .map((c) => c / 255)
    .map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
  const groundOf = (element) => {
    const ground = channels(getComputedStyle(element).backgroundColor);
    return ground[3] === 0 ? groundOf(element.parentElement) : ground;
  };
  const ratios = [...document.querySelectorAll("h1,h2,p,span,b,dt,dd,th,td")]
    .filter((element) => element.textContent.trim() !== "" && element.offsetParent !== null)
    .map((element) => [channels(getComputedStyle(element).color), groundOf(element)]
      .map(luminance).sort((a, b) => b - a))
    .map(([light, dark]) => (light + 0.05) / (dark + 0.05));
  return Math.min(...ratios);
})()`;
