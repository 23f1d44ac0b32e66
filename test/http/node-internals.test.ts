/** What the server uses of Node without documentation: on if its probe agrees, else off, with a warning. */
import assert from "node:assert/strict";
import { OutgoingMessage } from "node:http";
import { type TestContext, test } from "node:test";
import { okReply, replyHeaders } from "../../src/http/answer.ts";
import { serve } from "../support/serve.ts";
import { collectWarnings } from "../support/watch.ts";

type Internals = typeof import("../../src/http/node-internals.ts");

/** Loads the module once more. */
function load(name: string): Promise<Internals> {
  return import(`../../src/http/node-internals.ts?${name}`);
}

/** Whether it is on when it is loaded now; returns the warnings, too, of two servers. */
async function judge(t: TestContext, name: string) {
  const warnings = collectWarnings(t);
  const { serverSettings } = await load(name);
  serverSettings(7000);
  const isOn = serverSettings(7000).keepAliveTimeout === 0;
  return { isOn, warnings: warnings.map(({ message }) => message) };
}

test("on this version of Node the probe agrees", async (t) => {
  assert.deepEqual(await judge(t, "as it is"), { isOn: true, warnings: [] });
});

test("an answer right after the probe has its own headers", async (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: Date.now() });
  const { advertiseIdleTime, probe, sendAsOneText } = await load("headers");
  probe();
  const { url } = await serve(t, (_req, res) => {
    advertiseIdleTime(res, 7000); // as in the probe
    assert.equal(sendAsOneText(res, okReply("{}"), "one", replyHeaders), true);
  });
  assert.equal((await fetch(url)).headers.get("content-type"), "application/json");
});

const UNLIKE: readonly [what: string, change: (t: TestContext) => void][] = [
  ["ignores a head that was changed", ignoreChangedHeads],
  ["throws", (t) => t.mock.method(OutgoingMessage.prototype, "getHeaderNames", fail)],
];

for (const [what, change] of UNLIKE) {
  test(`on a Node that ${what} all is off, with one warning`, async (t) => {
    change(t);
    const { isOn, warnings } = await judge(t, what);
    assert.equal(isOn, false);
    assert.equal(warnings.length, 1);
  });
}

function ignoreChangedHeads(t: TestContext): void {
  type Wrapped = (this: { _header: unknown }, ...parts: unknown[]) => unknown;
  const node = OutgoingMessage.prototype as unknown as Record<"_storeHeader" | "_send", Wrapped>;
  const heads = new WeakMap<object, unknown>();
  const { _storeHeader: store, _send: send } = node;
  t.mock.method(node, "_storeHeader", function (...parts) {
    store.call(this, ...parts);
    heads.set(this, this._header);
  } satisfies Wrapped);
  t.mock.method(node, "_send", function (...parts) {
    this._header = heads.get(this) ?? "";
    return send.call(this, ...parts);
  } satisfies Wrapped);
}

function fail(): never {
  throw new Error();
}

for (const versions of [{ node: "27.0.0" }, { node: "25.1.0" }]) {
  test(`with ${JSON.stringify(versions)} all is off, with one warning`, async (t) => {
    const { versions: own } = process;
    Object.defineProperty(process, "versions", { value: { ...own, ...versions } });
    t.after(() => Object.defineProperty(process, "versions", { value: own }));
    const { isOn, warnings } = await judge(t, Object.values(versions).join());
    assert.equal(isOn, false);
    assert.equal(warnings.length, 1);
    assert.match(`${warnings}`, new RegExp(`^With Node.js ${versions.node} `));
  });
}
