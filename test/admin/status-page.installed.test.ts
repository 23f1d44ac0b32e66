import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import { batches, publishWarning, requests } from "../../src/core/channels.ts";
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

/** The folder for screenshots, which are kept if it is set; `status-page.png` there is the picture of the README. */
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
  admin.status.free = async () => 30e9;
  admin.status.totalBytes = 120e9;
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
    reason: "id: expected a new id",
    durationMs: 1,
    bodyBytes: 9,
    requestId: "a-1",
    token: "gardener",
  });
  requests.publish({ status: 503, error: 50301, bodyBytes: 0 });
  requests.publish({ status: 401, error: 40101, reason: "Authorization: required", bodyBytes: 0 });
  publishWarning("The <b>disk</b> is slow");
  publishWarning("The <b>disk</b> is slow");
  return admin;
}

/** Five minutes of a server with some load, for people to look at. */
async function startWatched(t: TestContext): Promise<Admin> {
  const now = t.mock.method(Date, "now", () => START);
  const admin = await startAdmin(t);
  admin.status.known = {
    plants: 1_204_377,
    logBytes: 71_300_000,
    queueBytes: 4096,
    checkpointBytes: 67_108_864,
  };
  const day = 86_400_000;
  admin.status.listed = [
    { name: "greenhouse", scopes: ["write"], expiresAt: START + 90 * day },
    { name: "shop", scopes: ["read", "write"], expiresAt: START + 5 * day },
    { name: "report", scopes: ["read"], expiresAt: undefined },
  ];
  admin.status.free = async () => 31.2 * 2 ** 30;
  admin.status.totalBytes = 48.9 * 2 ** 30;
  let seed = 1;
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647;
    return seed / 2_147_483_647;
  };
  const request = { status: 200, bodyBytes: 80, token: "greenhouse" };
  for (let second = 0; second < 300; second++) {
    now.mock.mockImplementation(() => START + 1000 * second);
    const isSlow = second > 190 && second < 214;
    const creates = Math.round(40 + 25 * Math.sin(second / 45) + 30 * random());
    const syncMs = (isSlow ? 30 : 1.5) * (0.7 + random());
    for (let n = 0; n < creates; n++) {
      const isUnlucky = random() < 0.04;
      const durationMs = (isUnlucky ? syncMs + 20 * random() : 0.4 + random()) + (isSlow ? 3 : 0);
      requests.publish({ ...request, operation: "createPlant", durationMs });
    }
    batches.publish({ log: "x", records: creates, bytes: 80 * creates, syncMs });
    const reads = Math.round(120 + 60 * Math.sin(second / 25) + 60 * random());
    for (let n = 0; n < reads; n++) {
      const durationMs = 0.3 + 0.5 * random();
      requests.publish({ ...request, token: "shop", operation: "getPlant", durationMs });
    }
    const refused = { status: 400, error: 40006, token: "shop", bodyBytes: 80 };
    const reason =
      "Cannot create plant: the id belongs to a plant with another name or tag; get that one, or use another id";
    if (second % 90 === 40) requests.publish({ ...refused, operation: "createPlant", reason });
    if (second === 100) requests.publish({ status: 401, error: 40102, bodyBytes: 0 });
    if (second === 200) {
      publishWarning("Cannot write the checkpoint (it will be retried); no plant is at risk");
    }
  }
  now.mock.mockImplementation(() => START + 300_000);
  return admin;
}

/** The longest that each figure can be. */
async function startFull(t: TestContext): Promise<Admin> {
  const admin = await startBusy(t);
  admin.status.known = { plants: 2_147_483_648, logBytes: 1e12, queueBytes: 0, checkpointBytes: 1 };
  admin.status.listed = [
    { name: "x".repeat(64), scopes: ["read", "write"], expiresAt: Date.now() + 1e11 },
  ];
  admin.status.free = async () => 1000 * 2 ** 20;
  admin.status.totalBytes = 1000 * 2 ** 30;
  const token = "x".repeat(64);
  for (const { status, error } of Object.values(FAILURES)) {
    const reason = status < 500 ? `name: ${"x".repeat(300)}` : undefined;
    const refused = { status, error, token, reason, bodyBytes: 0 };
    for (let n = 0; n < 12_345; n++) requests.publish(refused);
  }
  for (let n = 0; n < 20; n++) publishWarning(`${n} "/${"x".repeat(300)}"`);
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
    first = "",
  ): Promise<Visit> {
    const page = await browser.newPage();
    t.after(() => page.close());
    await page.evaluateOnNewDocument(first);
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

  /** Where a plot is in the window, after it was scrolled there. */
  const plotBox = (page: Page, plot: string) =>
    page.evaluate<{ x: number; y: number; width: number }>(`(() => {
      const svg = document.querySelector("#${plot} svg");
      svg.scrollIntoView({ block: "nearest" });
      return svg.getBoundingClientRect().toJSON();
    })()`);

  const focus = (page: Page, plot: string) =>
    page.evaluate(`document.querySelector("${plot} svg").focus()`);

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
    assert.match(
      await text(page, "refusals"),
      /40006\s+conflict\s+last by gardener: id: expected a new id\s+1\s+1 s ago\s/,
    );
    assert.match(
      await text(page, "refusals"),
      /40101\s+missing token\s+last: Authorization: required\s+1\s+1 s ago$/,
    );
    assert.match(await text(page, "failures"), /50301\s+overloaded\s+1\s+1 s ago$/);
    assert.match(await text(page, "warnings"), /The <b>disk<\/b> is slow\s+\S.*\d\s+2$/);
    assert.match(
      await text(page, "tokens"),
      /<b>markup<\/b>\s+read write\s+\d{4}.*\s+not since\s+\S.*, \d\d:\d\d:\d\d\s/,
    );
    assert.match(await text(page, "tokens"), /gardener\s+write\s+never\s+1 s ago$/);
    assert.equal(await text(page, "free"), "27.9\u00a0GiB, 25\u00a0% of 112\u00a0GiB");
    assert.match(await text(page, "checkpoint"), /all but the last 977.KiB/);
    assert.equal(await page.evaluate('document.querySelectorAll("b > b, td b").length'), 0);
    for (const [plot, greatest, axis] of [
      ["creates", /\b40\b/, ["50", "25", "0"]],
      ["reads", /\b1\b/, ["1", "0.5", "0"]],
      ["latency", /^p99 at most 4\.\d+ ms$/, ["10", "1", "0.1"]],
      ["syncs", /\b3\b/, ["5", "2.5", "0"]],
    ] as const) {
      assert.match(await text(page, `${plot}-value`), greatest);
      assert.deepEqual(await axisOf(page, plot), axis);
    }
    assert.match(await text(page, "reads-now"), /^1 \/s$/);
    assert.match(await text(page, "p50"), /^[\d.]+ ms$/);
    assert.match(await text(page, "memory"), /^[\d.]+.MiB$/);
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
    await focus(page, "#creates");
    assert.equal(await text(page, "creates-value"), "none");
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

  /** The time of day that the page shows for a second after the start. */
  const timeOf = (second: number) => new Date(START + 1000 * second).toTimeString().slice(0, 8);

  test("the keys choose a second, which all plots read out, to people and to a screen reader", async (t) => {
    const now = t.mock.method(Date, "now", () => START);
    const admin = await startBusy(t);
    now.mock.mockImplementation(() => START + 100_000);
    const { page } = await visit(t, admin);
    const readOut = (plot: string) => text(page, `${plot}-value`);
    assert.equal(await readOut("creates"), "peak 40 /s");
    await focus(page, "#creates");
    assert.equal(await readOut("creates"), `none at ${timeOf(99)}`);
    for (const [key, second] of [
      ["ArrowLeft", 98],
      ["PageDown", 38],
      ["ArrowRight", 39],
      ["Home", 0],
      ["ArrowLeft", 0],
      ["End", 99],
      ["ArrowRight", 99],
      ["Home", 0],
    ] as const) {
      await page.keyboard.press(key);
      const words = second === 0 ? "40 /s" : "none";
      assert.equal(await readOut("creates"), `${words} at ${timeOf(second)}`, key);
    }
    assert.equal(await readOut("reads"), `1 /s at ${timeOf(0)}`);
    assert.equal(await readOut("syncs"), `3 ms at ${timeOf(0)}`);
    assert.match(await readOut("latency"), /^p50 [\d.]+ ms, p99 4\.\d+ ms at /);
    for (const plot of ["creates", "reads", "latency", "syncs"]) {
      assert.equal(await lineOf(page, plot, "cursor"), "M200.5 0V100");
      const spoken = await page.evaluate<string>(
        `document.querySelector("#${plot} svg").getAttribute("aria-valuetext")`,
      );
      assert.equal(spoken, await readOut(plot));
    }
    await page.keyboard.press("Escape");
    assert.equal(await readOut("creates"), "peak 40 /s");
    assert.equal(await lineOf(page, "creates", "cursor"), "");
    await page.keyboard.press("Home");
    await page.keyboard.press("Tab");
    assert.equal(await readOut("reads"), `none at ${timeOf(99)}`);
  });

  test("a plot that has the focus before the first answer is read out as none", async (t) => {
    const admin = await startAdmin(t);
    const { page } = await visit(t, admin);
    await page.evaluateOnNewDocument("window.fetch = () => new Promise(() => {});");
    await page.goto(admin.server.url);
    await focus(page, "#creates");
    const spoken = 'document.querySelector("#creates svg").getAttribute("aria-valuetext")';
    assert.equal(await page.evaluate(spoken), "none");
  });

  test("a mouse that leaves a plot leaves the second to the plot that has the focus", async (t) => {
    const now = t.mock.method(Date, "now", () => START);
    const admin = await startBusy(t);
    now.mock.mockImplementation(() => START + 300_000);
    const { page } = await visit(t, admin);
    await focus(page, "#reads");
    const { x, y, width } = await plotBox(page, "syncs");
    await page.mouse.move(x + (width * 10.5) / 300, y + 20);
    await page.mouse.move(1, 1);
    assert.equal(await text(page, "reads-value"), `none at ${timeOf(10)}`);
  });

  test("the pointer chooses a second, which stays the same while the bars move, until it leaves", async (t) => {
    const now = t.mock.method(Date, "now", () => START);
    const admin = await startBusy(t);
    now.mock.mockImplementation(() => START + 300_000);
    const { page } = await visit(t, admin);
    const { x, y, width } = await plotBox(page, "syncs");
    await page.mouse.move(x + (width * 10.5) / 300, y + 20);
    assert.equal(await text(page, "creates-value"), `none at ${timeOf(10)}`);
    assert.equal(await lineOf(page, "creates", "cursor"), "M10.5 0V100");
    now.mock.mockImplementation(() => START + 304_000);
    await waitFor(
      page,
      'document.querySelector("#syncs .cursor").getAttribute("d") === "M6.5 0V100"',
    );
    assert.equal(await text(page, "creates-value"), `none at ${timeOf(10)}`);
    now.mock.mockImplementation(() => START + 400_000);
    await waitFor(page, 'document.querySelector("#syncs .cursor").getAttribute("d") === ""');
    await page.mouse.move(x + width / 2, y + 20);
    assert.match(await text(page, "syncs-value"), / at /);
    await page.mouse.move(1, 1);
    assert.equal(await text(page, "syncs-value"), "none");
  });

  test("p50 can be seen beside a p99 of a hundred times, and each minute has its tick", async (t) => {
    const now = t.mock.method(Date, "now", () => START);
    const admin = await startAdmin(t);
    for (let n = 0; n < 100; n++) {
      requests.publish({ status: 200, bodyBytes: 0, durationMs: n < 98 ? 0.4 : 40 });
    }
    now.mock.mockImplementation(() => START + 300_000);
    const { page } = await visit(t, admin, 360);
    assert.deepEqual(await axisOf(page, "latency"), ["100", "10", "1", "0.1"]);
    const [, p50 = ""] = /^M0 ([\d.]+)h1$/.exec(await lineOf(page, "latency", "line")) ?? [];
    const [, from = "", p99 = ""] =
      /^M0\.5 ([\d.]+)V([\d.]+)$/.exec(await lineOf(page, "latency", "bars")) ?? [];
    assert.ok(80 < Number(p50) && Number(p50) < 90, p50);
    assert.equal(from, p50);
    assert.ok(10 < Number(p99) && Number(p99) < 20, p99);
    const [labels, apart] = await page.evaluate<[string[], number]>(`(() => {
      const labels = [...document.querySelectorAll("#reads .x span")];
      const svg = document.querySelector("#reads svg").getBoundingClientRect();
      const apart = labels.slice(1, -1).map((label, at) => {
        const { left, width } = label.getBoundingClientRect();
        return Math.abs(left + width / 2 - svg.left - (svg.width * (at + 1)) / 5);
      });
      return [labels.map((label) => label.textContent), Math.max(...apart)];
    })()`);
    assert.deepEqual(labels, ["5 min", "4", "3", "2", "1", "now"]);
    assert.ok(apart < 1, `${apart}`);
  });

  test("a disk that is nearly full is marked", async (t) => {
    const admin = await startAdmin(t);
    admin.status.free = async () => 2 ** 20;
    admin.status.totalBytes = 2 ** 30;
    admin.status.known = { plants: 7, queueBytes: 0, refusedMsAgo: 0 };
    const { page } = await visit(t, admin);
    assert.equal(await text(page, "free"), "1\u00a0MiB, 0\u00a0% of 1\u00a0GiB");
    assert.match(await text(page, "refused"), /^\d s ago$/);
    assert.equal(await page.evaluate('document.getElementById("free").className'), "bad");
  });

  test("an empty store shows the request that creates a plant, and copies it if the browser can", async (t) => {
    const admin = await startAdmin(t);
    const isHidden = (page: Page, id: string) =>
      page.evaluate<boolean>(`document.getElementById("${id}").hidden`);
    admin.status.known = { plants: 0, queueBytes: 0 };
    const copies = `Object.defineProperty(navigator, "clipboard", {
      value: { writeText: async (text) => { window.copied = text; } },
    });`;
    const { page } = await visit(t, admin, 360, "light", copies);
    const request =
      "curl -X POST 'http://127.0.0.1:8080/plants' -H \"Authorization: Bearer $TOKEN\" " +
      '-H \'Content-Type: application/json\' -d \'{"id":1,"name":"Monstera deliciosa","tag":"tropical"}\'';
    assert.equal(await text(page, "request"), request);
    await page.click("#copy");
    assert.equal(await page.evaluate("window.copied"), request);
    assert.equal(await text(page, "copy"), "Copied");
    await waitFor(page, 'document.getElementById("copy").textContent === "Copy"');
    await page.evaluate("navigator.clipboard.writeText = () => Promise.reject(new Error())");
    await page.click("#copy");
    await waitFor(page, 'document.getElementById("copy").textContent === "Select it to copy"');
    assert.deepEqual(await breachesOf(page), []);
    await page.screenshot({ path: join(SHOTS ?? makeFolder(t), "empty.png"), fullPage: true });

    admin.status.serviceUrl = undefined;
    const cannotCopy = 'Object.defineProperty(navigator, "clipboard", { value: undefined });';
    const { page: other } = await visit(t, admin, 360, "light", cannotCopy);
    assert.match(await text(other, "request"), /^curl -X POST 'http:\/\/HOST:PORT\/plants' /);
    assert.equal(await isHidden(other, "copy"), true);
    admin.status.known = { plants: 1, queueBytes: 0 };
    await waitFor(other, 'document.getElementById("first").hidden');
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
    admin.status.known = { plants: 0, queueBytes: 2048 }; // an estimate, which may be 0
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
      [
        await isHidden(other, "disk"),
        await isHidden(other, "database"),
        await isHidden(other, "first"),
      ],
      [true, false, true],
    );
    const shown = ["host", "standby", "lease", "connections", "retries", "unsent"];
    assert.deepEqual(await Promise.all(shown.map((id) => text(other, id))), [
      "db.example:5432",
      "yes",
      "0 s ago",
      "5",
      "5",
      "2\u00a0KiB",
    ]);
    assert.match(await text(other, "token-command"), / --database URL$/);
    assert.deepEqual(await breachesOf(other), []);
    const folder = SHOTS ?? makeFolder(t);
    await other.screenshot({ path: join(folder, "database.png"), fullPage: true });
  });

  test("it shows each change of state, since when the server is gone, and ages that go on", async (t) => {
    const now = t.mock.method(Date, "now", () => START);
    const admin = await startBusy(t);
    const { page } = await visit(t, admin);
    admin.status.current = "draining";
    await waitFor(page, 'document.getElementById("state").className === "draining"');
    assert.match(await page.evaluate<string>("document.title"), /draining/);
    now.mock.mockImplementation(() => START + 7000);
    await waitFor(page, 'document.getElementById("refusals").innerText.endsWith("8 s ago")');
    await admin.server.close();
    await waitFor(page, 'document.getElementById("state").className === "silent"');
    assert.match(
      await text(page, "message"),
      new RegExp(`^the server does not answer; what is shown is from ${timeOf(7)},`),
    );
    await waitFor(page, 'document.getElementById("answered").innerText === "5 s ago"');
    assert.match(await text(page, "refusals"), /\s1[23] s ago$/);
    await page.screenshot({ path: join(SHOTS ?? makeFolder(t), "silent.png"), fullPage: true });
  });

  test("a failure of the page itself is reported, not shown as a server that does not answer", async (t) => {
    const admin = await startAdmin(t);
    const { page, complaints } = await visit(t, admin);
    await page.evaluate('document.getElementById("plants").remove()');
    for (const state of ["draining", "failed"] as const) {
      admin.status.current = state;
      await waitFor(page, `document.getElementById("state").className === "${state}"`);
    }
    assert.match(`${complaints}`, /Cannot read properties of null/);
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

  test("the picture of the README shows a server with some load, one second read out", async (t) => {
    const { page } = await visit(t, await startWatched(t), 1000);
    await page.setViewport({ width: 1000, height: 850 });
    const { x, y, width } = await plotBox(page, "syncs");
    await page.mouse.move(x + (width * 200.5) / 300, y + 20);
    assert.match(await text(page, "syncs-value"), /^[\d.]+ ms at \d\d:/);
    const path = join(SHOTS ?? makeFolder(t), "status-page.png");
    await page.screenshot({ path, fullPage: false });
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

      test(`a server with some load can be read in ${scheme} at ${width} px`, async (t) => {
        const { page } = await visit(t, await startWatched(t), width, scheme);
        await focus(page, "#latency");
        await page.keyboard.press("PageDown");
        await page.keyboard.press("PageDown");
        assert.match(await text(page, "latency-value"), /^p50 [\d.]+ ms, p99 [\d.]+ ms at /);
        assert.equal(await page.evaluate("document.documentElement.scrollWidth"), width);
        assert.deepEqual(await page.evaluate(CUT), []);
        assert.deepEqual(await breachesOf(page), []);
        const path = join(SHOTS ?? makeFolder(t), `busy-${scheme}-${width}.png`);
        await page.screenshot({ path, fullPage: true });
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
  const ratios = [...document.querySelectorAll("h1,h2,p,span,b,dt,dd,th,td,small")]
    .filter((element) => element.textContent.trim() !== "" && element.offsetParent !== null)
    .map((element) => [channels(getComputedStyle(element).color), groundOf(element)]
      .map(luminance).sort((a, b) => b - a))
    .map(([light, dark]) => (light + 0.05) / (dark + 0.05));
  return Math.min(...ratios);
})()`;
