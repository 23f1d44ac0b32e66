import assert from "node:assert/strict";
import { test } from "node:test";
import { openPostgres } from "../../src/postgres/index.ts";
import { parseDatabaseUrl } from "../../src/postgres/url.ts";

test("a URL has libpq's meaning: several hosts, ports, sockets, percent signs", () => {
  const url = "postgresql://a%40b:p%3Aw@one.example,[::1]:5433,%2Frun%2Fpg:6000/g%20d";
  assert.deepEqual(parseDatabaseUrl(url), {
    hosts: [
      { host: "one.example", port: 5432 },
      { host: "::1", port: 5433 },
      { host: "/run/pg", port: 6000 },
    ],
    sslmode: "verify-full",
    ca: undefined,
    user: "a@b",
    password: "p:w",
    database: "g d",
  });
});

test("TLS is checked in full unless every host is this machine", () => {
  for (const [url, mode] of [
    ["postgres://127.0.0.1,localhost,%2Frun/x", "disable"],
    ["postgres://127.0.0.1,db.example/x", "verify-full"],
    ["postgres://db.example/x?sslmode=require", "verify-full"],
    ["postgres://db.example/x?sslmode=verify-ca", "verify-ca"],
    ["postgres://db.example/x?channel_binding=require&connect_timeout=3", "verify-full"],
  ] as const) {
    assert.equal(parseDatabaseUrl(url).sslmode, mode, url);
  }
});

test("a text that is no URL of a database is refused, and its password not shown", () => {
  for (const [url, expected] of [
    ["http://a:pw@db.example/x", /expected "postgresql:/],
    ["postgresql:///x", /expected a host/],
    ["postgresql://db.example:0/x", /port above 0/],
    ["postgresql://db.example/%zz", /expected "postgresql:/],
    ["postgresql://a:pw/3@db.example/x", /percent-encode "@" as "%40"/],
    ["postgresql://a:pw@b,c:pw@d/e", /expected "postgresql:/],
    ["postgresql://db.example/x?sslmode=prefer", /sslmode: expected disable, verify-ca/],
    ["postgresql://db.example/x?sslrootcert=/nowhere/ca", /sslrootcert: cannot read.*nowhere/],
    ["postgresql://db.example/x?options=-c%20a%3Db", /unknown parameter "options"/],
  ] as const) {
    const isGood = ({ name, message }: Error) =>
      name === "RangeError" && expected.test(message) && !/pw|[12]@/.test(message);
    assert.throws(() => parseDatabaseUrl(url), isGood, url);
  }
});

test("a driver that ignores the socket it is given, as libpq does, is refused", async () => {
  const opening = openPostgres({ pg: { Client: class {} }, url: "postgresql://a@b/c" });
  await assert.rejects(opening, { name: "TypeError", message: /pg: expected the driver in Java/ });
});
