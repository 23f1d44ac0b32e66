import assert from "node:assert/strict";
import { test } from "node:test";
import { isLoopback, isSafeHost, parseAdminAddress } from "../../src/admin/server.ts";
import { formatAdminAddress } from "../../src/core/options.ts";
import { startAdmin } from "../support/admin.ts";

const GOOD: readonly [text: string, url: string, isLoopback: boolean][] = [
  ["127.0.0.1:9180", "http://127.0.0.1:9180", true],
  ["9180", "http://127.0.0.1:9180", true],
  ["127.1.2.3:0", "http://127.1.2.3:0", true],
  ["[::1]:9180", "http://[::1]:9180", true],
  ["LocalHost:80", "http://LocalHost:80", true],
  ["0.0.0.0:9180", "http://0.0.0.0:9180", false],
  ["[::]:65535", "http://[::]:65535", false],
  ["127.evil.example:80", "http://127.evil.example:80", false],
  ["[::2]:80", "http://[::2]:80", false],
  ["greenhouse.example:80", "http://greenhouse.example:80", false],
];

for (const [text, url, loopback] of GOOD) {
  test(`"${text}" is an admin address, reachable from ${loopback ? "this machine only" : "other machines"}`, () => {
    const address = parseAdminAddress(text);
    assert.equal(formatAdminAddress(address), url);
    assert.equal(isLoopback(address.host), loopback);
  });
}

const BAD = ["", ":9180", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:x", "65536"];
const WORSE = ["::1:9180", "[127.0.0.1]:1", "a b:1", "a\n:1", "/run/admin.sock", "./a:1"];

for (const text of [...BAD, ...WORSE]) {
  test(`${JSON.stringify(text)} is not an admin address`, () => {
    assert.throws(() => parseAdminAddress(text), RangeError);
  });
}

const HOSTS: readonly [host: string | undefined, isSafe: boolean][] = [
  ["127.0.0.1:9180", true],
  ["127.0.0.1", true],
  ["[::1]:9180", true],
  ["192.0.2.7:9180", true], // an address, not a name: no page can make it resolve to this machine
  ["localhost:9180", true],
  ["LOCALHOST", true],
  ["plant-store:9180", true],
  ["evil.example:9180", false],
  ["evilgarden.example", false],
  ["evil-localhost.example:9180", false],
  ["localhost.evil.example", false],
  ["evil.localhost", false],
  ["127.0.0.1.evil.example", false],
  ["evil127.0.0.1", false],
  ["evil.example:127.0.0.1", false],
  ["[::1].evil.example", false],
  ["evil.example.", false],
  ["", false],
  [undefined, true], // HTTP/1.0 by then, so no browser
];

for (const [host, isSafe] of HOSTS) {
  test(`the Host ${host} is ${isSafe ? "accepted" : "refused"} on loopback`, () => {
    assert.equal(isSafeHost(host), isSafe);
  });
}

test("a listener that other machines reach anyway accepts every Host", async (t) => {
  const everywhere = await startAdmin(t, { host: "0.0.0.0", port: 0 });
  const loopback = await startAdmin(t);
  const request = { headers: { Host: "evilgarden.example:9180" } };
  assert.equal((await everywhere.get("/healthz", request)).status, 200);
  assert.equal((await loopback.get("/healthz", request)).status, 400);
});
