import assert from "node:assert/strict";
import { test } from "node:test";
import { PostgresPlants } from "../../src/postgres/index.ts";

test("a driver that ignores the socket it is given, as that of libpq does, is refused", async () => {
  class Client {}
  await assert.rejects(PostgresPlants.open({ pg: { Client }, url: "postgresql://a@b/c" }), {
    name: "TypeError",
    message: /pg: expected the driver in JavaScript/,
  });
});
