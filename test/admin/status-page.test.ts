import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { Recorder } from "../../src/admin/recorder.ts";
import { renderPage } from "../../src/admin/status-page.ts";
import { batches, publishWarning, requests } from "../../src/core/channels.ts";
import { freezeTime, startAdmin, TestStatus } from "../support/admin.ts";
import { UNSHIPPED } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

/** A page at a time that stands; `read` is its text as a person reads it, tags and repeated spaces left out. */
function openPage(t: TestContext) {
  const pass = freezeTime(t);
  const status = new TestStatus();
  const recorder = new Recorder();
  t.after(() => recorder.close());
  const render = () => renderPage(status, recorder, true);
  const read = () => {
    const [, body = ""] = render().split("<body>");
    return body.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
  };
  return { pass, status, render, read };
}

const CREATE = { operation: "createPlant", status: 200, durationMs: 1, token: "gardener" };
const REFUSED = { ...CREATE, status: 503, error: 50301 };

test("the page has no script, and loads nothing", (t) => {
  const { render } = openPage(t);
  assert.doesNotMatch(
    render(),
    /<script|<link|<img| (?:src|srcset|action|style|on[a-z]+)=|url\(|@import/,
  );
});

test("the picture of the page in the README is a PNG of at most 60 KB", () => {
  const png = readFileSync(path.join(ROOT, UNSHIPPED));
  assert.equal(png.toString("latin1", 0, 8), "\x89PNG\r\n\x1a\n");
  assert.ok(png.length <= 60_000, `${png.length}`);
});

test("every link of the page leads to a page of its listener, and one stops or starts the reload", async (t) => {
  const admin = await startAdmin(t);
  for (const [page, link] of [
    ["/", "?refresh=0"],
    ["/?refresh=0", "?"],
  ] as const) {
    const { text } = await admin.get(page);
    const links = Array.from(text.matchAll(/<a href="([^"]*)"/g), ([, place = ""]) => place);
    assert.deepEqual(links.sort(), ["healthz", "metrics", "openapi.json", "readyz", link].sort());
    for (const place of links) assert.equal((await admin.get(`/${place}`)).status, 200, place);
  }
});

test("what comes from outside is text, never markup", (t) => {
  const { status, render } = openPage(t);
  const hostile = `<b onload="x">&'</b>`;
  status.folder = hostile;
  status.now.tokens = [{ name: hostile, scopes: [], expiresAt: undefined }];
  publishWarning(hostile);
  assert.doesNotMatch(render(), /<b onload/);
  assert.equal(render().split("&#60;b onload=&#34;x&#34;&#62;&#38;&#39;&#60;/b&#62;").length, 4);
});

test("rates and latency are those of the last ten seconds, or of those since the start", (t) => {
  const { pass, read } = openPage(t);
  assert.match(
    read(),
    / Creates 0 \/s Reads 0 \/s Failures \(5xx\) none Latency, p50 – Latency, p99 – /,
  );
  batches.publish({ records: 8, syncMs: 3 });
  for (let n = 0; n < 99; n++) requests.publish(CREATE);
  requests.publish({ ...CREATE, operation: "getPlant", durationMs: 40 });
  pass(4000);
  assert.match(read(), / Creates 2 \/s Reads 0\.25 \/s .* p50 0\.\d+ ms Latency, p99 1 ms /);
  pass(7000);
  assert.match(read(), / Creates 0 \/s Reads 0 \/s .* p50 – /);
});

test("a server that responds 5xx is failing for five minutes, with the rate, however ready it is", (t) => {
  const { pass, status, read, render } = openPage(t);
  for (let n = 0; n < 13_636; n++) requests.publish(REFUSED);
  pass(2000);
  assert.match(read(), /^ Plant store failing .*, but 13,636 failed in the last 5 min version/);
  assert.match(read(), / Failures \(5xx\) 6,818 \/s /);
  assert.match(read(), / 50301 overloaded, create 13,636 times, last 2 s ago /);
  pass(60_000);
  assert.match(read(), / failing .* Failures \(5xx\) none .* last 62 s ago /);
  status.now.state = "draining";
  assert.match(render(), /<b class="state draining">draining</);
  status.now.state = "ready";
  pass(300_000);
  assert.match(render(), /<b class="state ready">ready</);
});

test("failures are listed by operation and error, the most severe first, without successes and aborts", (t) => {
  const { read } = openPage(t);
  for (const change of [{}, { status: 400, error: 40006 }, { cut: true }, REFUSED]) {
    requests.publish({ ...CREATE, ...change });
  }
  requests.publish({ status: 401, error: 40101 });
  const rows = Array.from(read().matchAll(/ (\d{5} [a-z ]+, [a-z]+) /g), ([, row]) => row);
  const expected = [
    "50301 overloaded, create",
    "40101 missing token, none",
    "40006 conflict, create",
  ];
  assert.deepEqual(rows, expected);
});

test("four plots have axes, a bar for each second in which something happened, and say their highest", (t) => {
  const { pass, render, read } = openPage(t);
  const plotsOf = () =>
    Array.from(render().matchAll(/class="bars" d="([^"]*)"/g), ([, bars]) => bars);
  assert.deepEqual(plotsOf(), ["", "", "", ""]);
  assert.match(read(), / Creates per second none now 1 2 3 4 5 Reads/);
  batches.publish({ records: 7, syncMs: 33 });
  for (let n = 0; n < 100; n++) requests.publish({ ...CREATE, durationMs: n < 98 ? 0.9 : 90 });
  pass(2000);
  assert.deepEqual(plotsOf(), ["M298.5 100V30", "", "M298.5 70.7V4.2", "M298.5 100V34"]);
  assert.match(read(), / Creates per second at most 7 0 5 10 now /);
  assert.match(read(), / Latency in ms, p50 to p99 at most 75 0\.1 1 10 100 now /);
  assert.match(read(), / Slowest sync in ms at most 33 0 25 50 now /);
});

test("a store without plants shows the first request, as a shell takes it", (t) => {
  const { status, render } = openPage(t);
  status.url = "http://127.0.0.1:8080/it's";
  assert.equal(render().includes("curl"), false);
  status.now.store = { plants: 0, queueBytes: 0 };
  const [, command = ""] = /<code>(.*)<\/code>/.exec(render()) ?? [];
  const typed = command.replaceAll("&#39;", "'");
  assert.ok(
    typed.startsWith(`curl -X POST 'http://127.0.0.1:8080/it'\\''s/plants' -H "Auth`),
    typed,
  );
  status.now.database = { host: undefined, isSynchronous: false, leaseAgeMs: 0 };
  assert.equal(render().includes("curl"), false);
});

const DISKS: readonly [freeBytes: number, totalBytes: number, isShort: boolean, text: string][] = [
  [5e9, 100e9, false, "4.66 GiB, 5 % of 93.1 GiB"],
  [5e9 - 1, 100e9, true, "4.66 GiB, 4 % of 93.1 GiB"],
];

for (const [freeBytes, totalBytes, isShort, text] of DISKS) {
  test(`a disk with ${freeBytes} of ${totalBytes} bytes free is ${isShort ? "" : "not "}red`, (t) => {
    const { status, render } = openPage(t);
    status.disk = { freeBytes, totalBytes };
    assert.ok(render().includes(isShort ? `<span class="bad">${text}</span>` : `<dd>${text}</dd>`));
  });
}

test("an unknown disk and a store that is not open are shown as unknown", (t) => {
  const { status, read } = openPage(t);
  status.disk = undefined;
  status.now.store = undefined;
  assert.match(read(), / Plants – .* Log unknown Free unknown .* Tokens Not read yet\. /);
});

test("a database is shown instead of a disk", (t) => {
  const { status, read } = openPage(t);
  status.now.database = { host: "db:5432", isSynchronous: true, leaseAgeMs: 250 };
  assert.match(read(), / Database Host db:5432 Synchronous standby yes .* primary 0 s ago /);
  assert.doesNotMatch(read(), /Data directory/);
});

test("tokens are shown with scopes, expiry and last use, a hundred of them; without one, how to create one", (t) => {
  const { pass, status, read, render } = openPage(t);
  assert.match(
    read(),
    / Tokens Create one: plant-store token create NAME --data &#39;\/var\/lib\/plant-store&#39; /,
  );
  t.mock.method(Date, "now", () => 1_800_000_000_000);
  const token = (name: string, days?: number) => {
    const expiresAt = days === undefined ? undefined : 1_800_000_000_000 + days * 86_400_000;
    return { name, scopes: ["write" as const, "read" as const], expiresAt };
  };
  const others = Array.from({ length: 99 }, (_, n) => token(`other-${n}`));
  status.now.tokens = [token("gardener", 47), token("cook", 6), ...others];
  requests.publish(CREATE);
  pass(8000);
  assert.match(read(), / gardener write read expires in 47 d, used 8 s ago /);
  assert.match(render(), /<span class="bad">expires in 6 d<\/span>, not used since the start/);
  assert.match(read(), / other-97 write read never expires, not used since the start and 1 more /);
});
