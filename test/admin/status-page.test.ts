import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Recorder } from "../../src/admin/recorder.ts";
import { renderPage } from "../../src/admin/status-page.ts";
import { batches, publishWarning, requests } from "../../src/core/channels.ts";
import { freezeTime, TestStatus } from "../support/admin.ts";

/** A page at a time that stands. `read` returns its text as a person reads it. */
function openPage(t: TestContext) {
  const pass = freezeTime(t);
  const status = new TestStatus();
  const recorder = new Recorder();
  t.after(() => recorder.close());
  const render = () => renderPage(status, recorder, true);
  const read = () => {
    const [, body = ""] = render().split("<body>");
    const text = body.replace(/<[^>]*>/g, " ").replace(/\s+/g, " ");
    return text.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(code));
  };
  return { pass, status, render, read };
}

const CREATE = { operation: "createPlant", status: 200, durationMs: 1, token: "gardener" };
const REFUSED = { ...CREATE, status: 503, error: 50301 };

test("the page has no script, and loads nothing", (t) => {
  const loading = /<script|<link|<img| (src|srcset|action|style|on[a-z]+)=|url\(|@import/;
  assert.doesNotMatch(openPage(t).render(), loading);
});

test("values from outside are shown as text, never as markup", (t) => {
  const { status, render, read } = openPage(t);
  const hostile = `<b onload="x">&'</b>`;
  status.folder = hostile;
  status.now.tokens = [{ name: hostile, scopes: [], expiresAt: undefined }];
  publishWarning(hostile);
  assert.doesNotMatch(render(), /<b onload/);
  assert.equal(read().split(hostile).length, 4);
});

test("rates and latency are those of the last ten seconds, or since a start within them", (t) => {
  const { pass, read } = openPage(t);
  const none = / Creates 0 \/s Reads 0 \/s Failures \(5xx\) none Latency, p50 – Latency, p99 – /;
  assert.match(read(), none);
  batches.publish({ records: 8, syncMs: 3 });
  for (let n = 0; n < 99; n++) requests.publish(CREATE);
  requests.publish({ ...CREATE, operation: "getPlant", durationMs: 40 });
  pass(4000);
  assert.match(read(), / Creates 2 \/s Reads 0\.25 \/s .* p50 0\.\d+ ms Latency, p99 1 ms /);
  pass(7000);
  assert.match(read(), none);
});

test("a server that responds 5xx is failing for five minutes, and its failures are listed, the most severe first", (t) => {
  const { pass, status, read } = openPage(t);
  const others = [CREATE, { ...CREATE, status: 400, error: 40006 }, { ...CREATE, cut: true }];
  for (const message of others) requests.publish(message);
  for (let n = 0; n < 13_636; n++) requests.publish(REFUSED);
  pass(2000);
  assert.match(read(), /^ Plant store failing 13,636 requests of the last 5 min got a 5xx version/);
  assert.match(read(), / Failures \(5xx\) 6,818 \/s /);
  const rows = "50301 overloaded, create 13,636 times, last 2 s ago 40006 conflict, create 2 s ago";
  assert.ok(read().includes(` or were refused ${rows} Warnings `), read());
  status.now.state = "draining";
  assert.match(read(), /^ Plant store draining /);
  status.now.state = "ready";
  pass(299_000);
  assert.match(read(), /^ Plant store ready .* Failures \(5xx\) none /);
});

test("four plots have axes, their highest value, and a bar for each second in which something happened", (t) => {
  const { pass, render, read } = openPage(t);
  const bars = () => Array.from(render().matchAll(/class="bars" d="([^"]*)"/g), ([, each]) => each);
  assert.deepEqual(bars(), ["", "", "", ""]);
  batches.publish({ records: 7, syncMs: 33 });
  for (let n = 0; n < 100; n++) requests.publish({ ...CREATE, durationMs: n < 98 ? 0.9 : 90 });
  pass(2000);
  assert.deepEqual(bars(), ["M298.5 100V30", "", "M298.5 70.7V4.2", "M298.5 100V34"]);
  assert.match(read(), / Creates per second at most 7 0 5 10 now 1 min 2 min 3 min 4 min 5 min /);
  assert.match(read(), / Latency in ms, p50 to p99 at most 75 0\.1 1 10 100 now /);
});

test("a store without plants shows the first request, as a shell takes it; a database does not", (t) => {
  const { status, read } = openPage(t);
  status.url = "http://127.0.0.1:8080/it's";
  assert.doesNotMatch(read(), /curl/);
  status.now.store = { plants: 0, queueBytes: 0 };
  assert.ok(read().includes(` curl -X POST 'http://127.0.0.1:8080/it'\\''s/plants' -H "Auth`));
  status.now.database = { host: undefined, isSynchronous: false, leaseAgeMs: 0 };
  assert.doesNotMatch(read(), /curl/);
});

test("a disk with less than 5 % free is red, and one whose size cannot be read is unknown", (t) => {
  const { status, render } = openPage(t);
  status.disk = { freeBytes: 5e9, totalBytes: 100e9 };
  assert.match(render(), /<dd>4\.66 GiB, 5 % of 93\.1 GiB<\/dd>/);
  status.disk = { freeBytes: 5e9 - 1, totalBytes: 100e9 };
  assert.match(render(), /<span class="bad">4\.66 GiB, 4 % of/);
  status.disk = undefined;
  status.now.store = { queueBytes: 0 };
  assert.match(render(), /Log<\/dt><dd>unknown<.*\n.*Free<\/dt><dd>unknown</);
});

test("up to a hundred tokens are shown, with scopes, expiry and last use; without one, how to create it", (t) => {
  const { pass, status, read, render } = openPage(t);
  t.mock.method(Date, "now", () => 0);
  const token = (name: string, days?: number) => {
    const expiresAt = days === undefined ? undefined : days * 86_400_000;
    return { name, scopes: ["write", "read"] as const, expiresAt };
  };
  const others = Array.from({ length: 99 }, (_, n) => token(`other-${n}`));
  status.now.tokens = [token("gardener", 47), token("cook", 6), ...others];
  requests.publish(CREATE);
  pass(8000);
  assert.match(read(), / gardener write and read, expires in 47 d, used 8 s ago cook /);
  assert.match(render(), /<span class="bad">expires in 6 d<\/span>, not used since the start/);
  assert.match(read(), / other-97 write and read, never expires, not used .* and 1 more /);
  status.now.tokens = [];
  assert.match(read(), / Tokens .* token create NAME --data '\/var\/lib\/plant-store' $/);
});
