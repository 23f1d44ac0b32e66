import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";

test("a URL has libpq's meaning: several hosts, ports, sockets, percent signs", () => {
  const target = parseDatabaseUrl(
    "postgresql://a%40b:p%3Aw@one.example,[::1]:5433,%2Frun%2Fpg:6000/g%20d",
  );
  assert.deepEqual(target, {
    hosts: [
      { host: "one.example", port: 5432 },
      { host: "::1", port: 5433 },
      { host: "/run/pg", port: 6000 },
    ],
    tls: { mode: "verify-full", ca: undefined },
    user: "a@b",
    password: "p:w",
    database: "g d",
  });
});

test("TLS is checked in full unless every host is this machine", () => {
  const modeOf = (url: string) => parseDatabaseUrl(url).tls.mode;
  assert.equal(modeOf("postgres://127.0.0.1,localhost,%2Frun/x"), "disable");
  assert.equal(modeOf("postgres://127.0.0.1,db.example/x"), "verify-full");
  assert.equal(modeOf("postgres://db.example/x?sslmode=require"), "verify-full");
});

test("parameters of psql that change nothing here are accepted", () => {
  const url = "postgresql://db.example/x";
  const more = "?target_session_attrs=any&channel_binding=require&connect_timeout=3";
  assert.deepEqual(parseDatabaseUrl(url + more), parseDatabaseUrl(url));
});

test("a text that is no URL of a database is refused with what was expected", () => {
  for (const [url, expected] of [
    ["http://db.example/x", /expected "postgresql:/],
    ["postgresql:///x", /expected a host/],
    ["postgresql://db.example:0/x", /port above 0/],
    ["postgresql://db.example:65536/x", /expected "postgresql:/],
    ["postgresql://db.example/%zz", /expected "postgresql:/],
    ["postgresql://a:12/3@db.example/x", /percent-encode "@" as "%40"/],
    ["postgresql://a:1?2@db.example/x", /expected "postgresql:/],
    ["postgresql://db.example/x?sslmode=prefer", /sslmode: expected disable, verify-ca/],
    ["postgresql://db.example/x?options=-c%20a%3Db", /unknown parameter "options"/],
    ["postgresql://db.example/x?password=secret", /unknown parameter "password"/],
  ] as const) {
    assert.throws(() => parseDatabaseUrl(url), expected, url);
  }
});

test("a message about a wrong URL holds no password", () => {
  for (const text of [
    "jdbc:postgresql://u:pw@h",
    "postgres:/u:pw@h",
    "u:pw@h/db",
    "password='a b'",
    "host=h password = pw",
    "postgresql://a:p/w@b/c",
    "postgresql://a:1/2@b/c",
    "postgresql://a:1?2@b/c",
    "postgresql://a:p#w@b/c",
    "postgresql://a:pw",
    "postgresql://a@b/c?password=pw",
    "postgresql://a@b/c?sslmode=require&sslpassword=pw",
    "postgresql://a:pw@b,c:pw@d/e",
    " postgresql://a:pw@b/c",
    "postgresql:///a:pw@b/c",
    "postgresql://a:pw@b/c@d",
    "POSTGRESQL://a:pw@b/c",
    "http://a:pw@b/c",
    "pw",
  ]) {
    assert.throws(
      () => parseDatabaseUrl(text),
      ({ name, message }: Error) => name === "RangeError" && !/pw|[12]@/.test(message),
      text,
    );
  }
});
