import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { batches, requests } from "../../src/core/channels.ts";
import { FAILURES } from "../../src/http/answer.ts";
import { type Admin, startAdmin } from "../support/admin.ts";
import {
  type Browser,
  breachesOf,
  launchBrowser,
  missingBrowser,
  type Page,
} from "../support/browser.ts";
import { makeFolder } from "../support/folders.ts";
import { HANG_MS } from "../support/watch.ts";

/** The folder for screenshots, which are kept if it is set. */
const SHOTS = process.env.SCREENSHOTS;

/** In milliseconds since 1970. */
const START = 1_800_000_000_500;

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
    method: "GET",
    path: "/plants/7",
    status: 200,
    durationMs: 4,
    bodyBytes: 0,
    requestId: "a-2",
    token: "gardener",
    operation: "getPlant",
  });
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

/** The longest that each figure can be. */
async function startFull(t: TestContext): Promise<Admin> {
  const admin = await startBusy(t);
  admin.status.known = { plants: 2_147_483_648, logBytes: 1e12, queueBytes: 0, checkpointBytes: 1 };
  admin.status.listed = [
    { name: "x".repeat(64), scopes: ["read", "write"], expiresAt: Date.now() + 1e11 },
  ];
  for (const { status, error } of Object.values(FAILURES)) {
    for (let n = 0; n < 12_345; n++) requests.publish({ status, error, bodyBytes: 0 });
  }
  return admin;
}

interface Visit {
  readonly page: Page;
  /** Every message of the browser, and every address that it requested. */
  readonly complaints: string[];
  readonly asked: Set<string>;
}

const skip = missingBrowser();

describe("in a real Chromium", { skip: skip ?? false, timeout: 10 * HANG_MS }, () => {
  let browser: Browser;
  before(async () => {
    if (SHOTS !== undefined) mkdirSync(SHOTS, { recursive: true });
    browser = await launchBrowser();
  });
  after(() => browser?.close());

  async function visit(
    t: TestContext,
    admin: Admin,
    width = 375,
    scheme = "light",
  ): Promise<Visit> {
    const page = await browser.newPage();
    t.after(() => page.close());
    const complaints: string[] = [];
    const asked = new Set<string>();
    page.on("console", (message) => complaints.push(message.text()));
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("request", (request) => asked.add(request.url()));
    await page.setViewport({ width, height: 800 });
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    await page.goto(admin.server.url);
    await waitFor(page, 'document.getElementById("about").textContent !== ""');
    return { page, complaints, asked };
  }

  const text = (page: Page, id: string) =>
    page.evaluate<string>(`document.getElementById(${JSON.stringify(id)}).innerText`);

  const waitFor = (page: Page, condition: string) =>
    page.waitForFunction(condition, { timeout: HANG_MS });

  const axisOf = (page: Page, plot: string) =>
    page.evaluate<string[]>(
      `Array.from(document.querySelectorAll("#${plot} .y span"), (label) => label.textContent)`,
    );

  const lineOf = (page: Page, plot: string, name: string) =>
    page.evaluate<string>(`document.querySelector("#${plot} .${name}").getAttribute("d")`);

  test("it shows the store, its errors and its tokens, and sends requests to its server only", async (t) => {
    const now = t.mock.method(Date, "now", () => START);
    const admin = await startBusy(t);
    now.mock.mockImplementation(() => START + 1000); // what happened was in the last second
    const { page, complaints, asked } = await visit(t, admin);
    assert.equal(await text(page, "state"), "ready");
    assert.match(await text(page, "plants"), /^1.234.567$/);
    assert.match(await text(page, "errors"), /40006\s+conflict\s+1\s+/);
    assert.match(await text(page, "tokens"), /<b>markup<\/b>\s+read write\s+\d{4}.\d\d.\d\d/);
    assert.match(await text(page, "tokens"), /gardener\s+write\s+never/);
    assert.match(await text(page, "checkpoint"), /all but the last 977 KiB/);
    assert.equal(await page.evaluate('document.querySelectorAll("b > b, td b").length'), 0);
    for (const [plot, greatest, axis] of [
      ["creates", /\b40\b/, ["50", "25", "0"]],
      ["reads", /\b1\b/, ["1", "0.5", "0"]],
      ["latency", /\b4\.\d+ ms$/, ["5", "2.5", "0"]],
      ["syncs", /\b3\b/, ["5", "2.5", "0"]],
    ] as const) {
      assert.match(await text(page, `${plot}-top`), greatest);
      assert.deepEqual(await axisOf(page, plot), axis);
    }
    assert.match(await text(page, "reads-now"), /^1 \/s$/);
    assert.match(await text(page, "p50"), /^[\d.]+ ms$/);
    assert.match(await text(page, "memory"), /^[\d.]+ MiB$/);
    assert.equal(await text(page, "folder"), "/var/lib/plant-store");
    assert.match(await text(page, "queue"), /\b2\b/);
    const { url } = admin.server;
    assert.deepEqual([...asked].filter((address) => !address.startsWith("data:")).sort(), [
      `${url}/`,
      `${url}/status.json`,
    ]);
    assert.deepEqual(complaints, []);
  });

  test("it shows no bar, no axis and no checkpoint for a store that has just started", async (t) => {
    t.mock.method(Date, "now", () => START); // the first second is not over
    const { page } = await visit(t, await startAdmin(t));
    assert.equal(await text(page, "creates-now"), "0 /s");
    assert.equal(await text(page, "p99"), "–");
    assert.equal(await text(page, "checkpoint"), "nothing yet");
    assert.deepEqual(await axisOf(page, "creates"), ["", "", ""]);
    assert.equal(await lineOf(page, "creates", "bars"), "");
    assert.equal(await lineOf(page, "creates", "base"), "M300 100H300");
  });

  test("its plots begin where the server has started", async (t) => {
    const now = t.mock.method(Date, "now", () => START);
    const admin = await startBusy(t);
    now.mock.mockImplementation(() => START + 30_000);
    const { page } = await visit(t, admin);
    assert.equal(await lineOf(page, "creates", "base"), "M270 100H300");
    assert.match(await lineOf(page, "creates", "bars"), /^M270\.5 100V[\d.]+$/);
  });

  test("without a token it shows the command that creates one, as a shell takes it", async (t) => {
    const admin = await startAdmin(t);
    const create = "plant-store token create NAME";
    for (const [folder, command] of [
      ["/srv/plants", `${create} --data /srv/plants`],
      ["/srv/Bob's plants", `${create} --data '/srv/Bob'\\''s plants'`],
      [undefined, create],
    ] as const) {
      admin.status.dataFolder = folder;
      const { page } = await visit(t, admin);
      assert.equal(await text(page, "token-command"), command);
    }
    admin.status.known = undefined; // a start reads the log; the tokens come after it
    const { page } = await visit(t, admin);
    assert.equal(await page.evaluate('document.getElementById("tokens-none").hidden'), true);
  });

  test("it shows a database in place of the disk, if plants are in one", async (t) => {
    const admin = await startBusy(t);
    const isHidden = (page: Page, id: string) =>
      page.evaluate<boolean>(`document.getElementById("${id}").hidden`);
    const { page } = await visit(t, admin);
    assert.deepEqual(
      [await isHidden(page, "disk"), await isHidden(page, "database")],
      [false, true],
    );
    admin.status.dataFolder = undefined;
    admin.status.known = { plants: 7, queueBytes: 2048 };
    admin.status.listed = [];
    admin.status.overDatabase = {
      host: "db.example:5432",
      connections: 5,
      retries: new Map([
        ["40001", 2],
        ["", 3],
      ]),
      isSynchronous: true,
      leaseAgeMs: 400,
    };
    const { page: other } = await visit(t, admin, 360);
    assert.deepEqual(
      [await isHidden(other, "disk"), await isHidden(other, "database")],
      [true, false],
    );
    const shown = ["host", "standby", "lease", "connections", "retries", "unsent"];
    assert.deepEqual(await Promise.all(shown.map((id) => text(other, id))), [
      "db.example:5432",
      "yes",
      "0 s ago",
      "5",
      "5",
      "2 KiB",
    ]);
    assert.match(await text(other, "token-command"), / --database URL$/);
    assert.deepEqual(await breachesOf(other), []);
    const folder = SHOTS ?? makeFolder(t);
    await other.screenshot({ path: join(folder, "database.png"), fullPage: true });
  });

  test("it shows each change of state, and when the server is gone", async (t) => {
    const admin = await startBusy(t);
    const { page } = await visit(t, admin);
    admin.status.current = "draining";
    await waitFor(page, 'document.getElementById("state").className === "draining"');
    assert.match(await page.evaluate<string>("document.title"), /draining/);
    await admin.server.close();
    await waitFor(page, 'document.getElementById("state").className === "silent"');
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
    for (const width of [360, 1200]) {
      test(`it fits ${width} px, can be read in ${scheme}, and breaks no rule of axe-core`, async (t) => {
        const { page } = await visit(t, await startFull(t), width, scheme);
        assert.equal(await page.evaluate("document.documentElement.scrollWidth"), width);
        assert.deepEqual(await page.evaluate(CUT), []);
        assert.deepEqual(await breachesOf(page), []);
        // WCAG 2.2, 1.4.3: every text has a contrast of 4.5 to 1 against its background.
        assert.ok((await page.evaluate<number>(LOWEST_CONTRAST)) >= 4.5);
        const folder = SHOTS ?? makeFolder(t);
        await page.screenshot({ path: join(folder, `${scheme}-${width}.png`), fullPage: true });
      });
    }
  }
});

/** The texts that do not fit into their box: a cell, a fact, a caption. */
const CUT = `Array.from(document.querySelectorAll("td, th, dd, dt, figcaption span, .axis span"))
  .filter((box) => box.offsetParent !== null)
  .filter((box) => {
    const range = document.createRange();
    range.selectNodeContents(box);
    const frame = box.closest("section, figure").getBoundingClientRect();
    return range.getBoundingClientRect().right > frame.right - 8 || box.scrollWidth > box.clientWidth + 16;
  })
  .map((box) => box.textContent)`;

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
