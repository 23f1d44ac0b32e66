import assert from "node:assert/strict";
import { test } from "node:test";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";

test("a URL has libpq's meaning: several hosts, ports, sockets, percent signs", () => {
  const target = parseDatabaseUrl(
    "postgresql://a%40b:p%3Aw@one.example,[::1]:5433,%2Frun%2Fpg:6000/g%20d?application_name=x&options=-c%20a%3Db",
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
    applicationName: "x",
    options: "-c a=b",
  });
});

test("TLS is checked in full unless every host is this machine", () => {
  const modeOf = (url: string) => parseDatabaseUrl(url).tls.mode;
  assert.equal(modeOf("postgres://127.0.0.1,localhost,%2Frun/x"), "disable");
  assert.equal(modeOf("postgres://127.0.0.1,db.example/x"), "verify-full");
  assert.equal(modeOf("postgres://db.example/x?sslmode=require"), "require");
  assert.equal(
    modeOf("postgres://db.example/x?sslmode=require&sslrootcert=/dev/null"),
    "verify-ca",
  );
});

test("a text that is no URL of a database is refused with what was expected", () => {
  for (const [url, expected] of [
    ["http://db.example/x", /expected "postgresql:/],
    ["postgresql:///x", /expected a host/],
    ["postgresql://db.example:0/x", /port above 0/],
    ["postgresql://db.example:65536/x", /expected "postgresql:/],
    ["postgresql://db.example/%zz", /expected "postgresql:/],
    ["postgresql://db.example/x?sslmode=prefer", /sslmode: expected disable, require/],
    ["postgresql://db.example/x?target_session_attrs=standby", /target_session_attrs/],
    ["postgresql://db.example/x?password=secret", /unknown parameter "password"/],
  ] as const) {
    assert.throws(() => parseDatabaseUrl(url), expected, url);
  }
});
