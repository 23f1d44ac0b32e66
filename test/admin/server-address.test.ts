import assert from "node:assert/strict";
import { test } from "node:test";
import { isLocal, isOwnHost, parseAdminAddress } from "../../src/admin/server.ts";
import { formatAdminAddress } from "../../src/core/options.ts";

const GOOD: readonly [text: string, url: string, isLocal: boolean][] = [
  ["127.0.0.1:9180", "http://127.0.0.1:9180", true],
  ["127.1.2.3:0", "http://127.1.2.3:0", true],
  ["[::1]:9180", "http://[::1]:9180", true],
  ["localhost:9180", "http://localhost:9180", true],
  ["0.0.0.0:9180", "http://0.0.0.0:9180", false],
  ["[::]:65535", "http://[::]:65535", false],
  ["127.evil.example:80", "http://127.evil.example:80", false],
  ["LocalHost:80", "http://LocalHost:80", true],
  ["[::2]:80", "http://[::2]:80", false],
  ["greenhouse.example:80", "http://greenhouse.example:80", false],
  ["./admin.sock", "unix:./admin.sock", true],
  ["/run/plant-store/admin.sock", "unix:/run/plant-store/admin.sock", true],
];

for (const [text, url, local] of GOOD) {
  test(`"${text}" is an admin address, reachable from ${local ? "this machine only" : "other machines"}`, () => {
    const address = parseAdminAddress(text);
    assert.equal(formatAdminAddress(address), url);
    assert.equal(isLocal(address), local);
  });
}

const BAD = ["", "9180", ":9180", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:x"];
const WORSE = ["::1:9180", "[127.0.0.1]:1", "a b:1", "a\n:1", `/${"x".repeat(107)}`];

for (const text of [...BAD, ...WORSE]) {
  test(`${JSON.stringify(text.slice(0, 20))} is not an admin address`, () => {
    assert.throws(() => parseAdminAddress(text), RangeError);
  });
}

const HOSTS: readonly [host: string | undefined, isOwn: boolean][] = [
  ["127.0.0.1:9180", true],
  ["127.0.0.1", true],
  ["[::1]:9180", true],
  ["192.0.2.7:9180", true], // an address, not a name: no page can make it resolve to this machine
  ["localhost:9180", true],
  ["LOCALHOST", true],
  ["garden.example:9180", true],
  ["evil.example:9180", false],
  ["localhost.evil.example", false],
  ["127.0.0.1.evil.example", false],
  ["127.evil.example", false],
  ["", false],
  [undefined, true], // HTTP/1.0 by then, so no browser
];

for (const [host, isOwn] of HOSTS) {
  test(`a listener at garden.example ${isOwn ? "accepts" : "refuses"} the Host ${host}`, () => {
    assert.equal(isOwnHost(host, { host: "garden.example", port: 9180 }), isOwn);
    assert.equal(isOwnHost(host, { socketPath: "/x" }), true);
  });
}

test("a listener accepts the further names that it was given as Host, and no other", () => {
  const address = { host: "0.0.0.0", port: 9180 };
  const names = ["plant-store", "Garden.example"];
  assert.equal(isOwnHost("plant-store:9180", address, names), true);
  assert.equal(isOwnHost("garden.example", address, names), true);
  assert.equal(isOwnHost("plant-store.evil.example", address, names), false);
  assert.equal(isOwnHost("plant-store:9180", address), false);
});
