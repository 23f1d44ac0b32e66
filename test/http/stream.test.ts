/** How a stream of plants ends: whole, after a failure, and after a revocation. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { PlantServer, type PlantService } from "../../src/index.ts";

const HEADERS = { Authorization: "Bearer any", Accept: "application/x-ndjson" };
const line = (id: number) => `{"id":${id},"name":"a"}\n`;

/** A server whose list has two slices; `between` is called before the second one is read. */
async function readStream(between: () => void, isCurrent: () => boolean): Promise<string> {
  const plants: PlantService = {
    create: async () => "created",
    getLine: async () => undefined,
    async *listLines() {
      yield Buffer.from(line(1));
      between();
      yield Buffer.from(line(2));
    },
  };
  const reader = { name: "a", scopes: ["read"] as const };
  const tokens = { verify: () => (isCurrent() ? reader : undefined) };
  const server = await PlantServer.start({ port: 0, plants, tokens });
  try {
    return await (await fetch(`${server.url}/plants`, { headers: HEADERS })).text();
  } finally {
    await server.close(0);
  }
}

test("a whole stream ends with a line feed", async () => {
  const text = await readStream(
    () => {},
    () => true,
  );
  assert.equal(text, line(1) + line(2));
});

test("a stream that fails breaks off", async () => {
  const fail = () => {
    throw new Error("the disk is gone");
  };
  await assert.rejects(readStream(fail, () => true));
});

test("a stream breaks off when its token is revoked", async () => {
  let isRevoked = false;
  const revoke = () => {
    isRevoked = true;
  };
  await assert.rejects(readStream(revoke, () => !isRevoked));
});
