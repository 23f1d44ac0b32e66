/** How many connections our own server has open at once. */
import assert from "node:assert/strict";
import { syncBuiltinESMExports } from "node:module";
import { describe, type TestContext, test } from "node:test";
import v8, { getHeapStatistics } from "node:v8";
import { connectionsThatFit } from "../../src/http/server.ts";
import { createToken, PlantServer } from "../../src/index.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { Client } from "../support/client.ts";
import { assertError, assertPlant, encodeRequest } from "../support/contract.ts";
import type { RawAnswer } from "../support/raw.ts";
import { type Service, startService } from "../support/service.ts";
import { collectWarnings, TIMEOUT } from "../support/watch.ts";

const KIB = 1024;
const MIB = 1024 * KIB;

const FITTING: readonly [files: number, heapMiB: number, connections: number][] = [
  [1024, 2048, 864],
  [65_536, 2048, 21_845],
  [65_536, 256, 2730],
  [1_048_576, 4096, 43_690],
  [Number.POSITIVE_INFINITY, 2048, 21_845],
  [320, 2048, 160],
  [120, 2048, 60],
  [1, 2048, 1],
];

for (const [files, heapMiB, connections] of FITTING) {
  test(`${files} open files and a heap of ${heapMiB} MiB allow ${connections} connections`, () => {
    assert.equal(connectionsThatFit(files, heapMiB * MIB, 48 * KIB), connections);
  });
}

function create(service: Service, token = service.token): Buffer {
  return encodeRequest({ token }, { body: '{"id":1,"name":"x"}' });
}

/** Sends a create, and returns its answer. */
async function ask(client: Client, request: Buffer): Promise<RawAnswer> {
  await client.send(request);
  return client.next();
}

async function closed(client: Client): Promise<void> {
  await client.rest().catch(() => {}); // perhaps by a reset
}

/** Connects, and shows a token. */
async function connectKnown(t: TestContext, service: Service, token?: string): Promise<Client> {
  const client = await Client.connect(service.port);
  t.after(() => client.destroy());
  assertPlant(await ask(client, create(service, token)), { name: "x" });
  return client;
}

test("when connections are full, the oldest without a good token makes room", async (t) => {
  const warnings = collectWarnings(t, "connectionsMax");
  const service = await startService(t, { connectionsMax: 5 });
  const good = [await connectKnown(t, service), await connectKnown(t, service)];
  const silent = await Client.connect(service.port);
  good.push(await connectKnown(t, service));
  const bad = await Client.connect(service.port);
  assertError(await ask(bad, create(service, "pst_unknown")), 40102);
  const late = await Client.connect(service.port);
  await closed(silent);
  const later = await Client.connect(service.port);
  await closed(bad);
  good.push(await connectKnown(t, service));
  await closed(late);
  for (const client of good) assertPlant(await ask(client, create(service)), { name: "x" });
  assert.equal(warnings.length, 1, "one warning for all");
  later.destroy();
});

test("if all connections show a good token, the oldest beyond the share of its token makes room", async (t) => {
  let other = "";
  const prepare = async (folder: string) => {
    other = await createToken(folder, { name: "other" });
  };
  const service = await startService(t, { connectionsMax: 5, prepare });
  const many: Client[] = [];
  for (let n = 0; n < 5; n++) many.push(await connectKnown(t, service));
  const others = [await connectKnown(t, service, other), await connectKnown(t, service, other)];
  const rest = many.filter(({ isClosed }) => !isClosed);
  assert.deepEqual(rest, [many[0], many[1], many[4]]);
  for (const client of rest) assertPlant(await ask(client, create(service)), { name: "x" });
  for (const client of others)
    assertPlant(await ask(client, create(service, other)), { name: "x" });
});

test("one token keeps half of the connections, so that another always gets one", async (t) => {
  const service = await startService(t, { connectionsMax: 6 });
  const other = await createToken(service.folder, { name: "other" });
  await service.tokens.refresh();
  const held: Client[] = [];
  for (let count = 0; count < 6; count++) {
    const client = await Client.connect(service.port);
    assertPlant(await ask(client, create(service)), { name: "x" });
    held.push(client);
  }
  const late = await Client.connect(service.port);
  await closed(held[3] as Client); // three are kept
  assertPlant(await ask(late, create(service, other)), { name: "x" });
  for (const client of [...held.slice(0, 3), ...held.slice(4)]) {
    assertPlant(await ask(client, create(service)), { name: "x" });
    client.destroy();
  }
  late.destroy();
});

test("a connection that shows no token yet is not closed for those of a token beyond its share", async (t) => {
  const service = await startService(t, { connectionsMax: 4 });
  const other = await createToken(service.folder, { name: "other" });
  await service.tokens.refresh();
  const many: Client[] = [];
  for (let n = 0; n < 4; n++) many.push(await connectKnown(t, service));
  const fresh = await Client.connect(service.port);
  const fresher = await Client.connect(service.port);
  for (const client of [fresh, fresher]) {
    assertPlant(await ask(client, create(service, other)), { name: "x" });
    client.destroy();
  }
});

test("a connection whose last token was refused makes room like one that never showed a good one", async (t) => {
  const service = await startService(t, { connectionsMax: 3 });
  const fallen = await connectKnown(t, service);
  assertError(await ask(fallen, create(service, "pst_unknown")), 40102);
  const good = [await connectKnown(t, service), await connectKnown(t, service)];
  const late = await Client.connect(service.port);
  await closed(fallen);
  for (const client of good) assertPlant(await ask(client, create(service)), { name: "x" });
  late.destroy();
});

test("a token check without isCurrent makes connections known, too", async (t) => {
  const service = await startService(t);
  const tokens = { verify: () => ({ name: "a", scopes: ["write"] as const }) };
  const options = { port: 0, connectionsMax: 1, plants: service.store, tokens };
  const server = await PlantServer.start(options);
  t.after(() => server.close(0));
  const port = Number(new URL(server.url).port);
  const known = await Client.connect(port);
  for (let time = 0; time < 2; time++) {
    assertPlant(await ask(known, create(service)), { name: "x" });
    await closed(await Client.connect(port));
  }
  known.destroy();
});

describe("under TLS", { ...NEEDS_OPENSSL, ...TIMEOUT }, () => {
  test("a silent handshake makes room, then a finished one without a good token", async (t) => {
    const tls = makeCertificate(t, "localhost");
    const service = await startService(t, { connectionsMax: 2, tls });
    const known = await Client.connectSecurely(service.port, tls.cert);
    assertPlant(await ask(known, create(service)), { name: "x" });
    const shaking = await Client.connect(service.port);
    const finished = await Client.connectSecurely(service.port, tls.cert);
    await closed(shaking);
    const last = await Client.connectSecurely(service.port, tls.cert);
    await closed(finished);
    for (const client of [last, known]) {
      assertPlant(await ask(client, create(service)), { name: "x" });
    }
    for (const client of [last, known]) client.destroy();
  });

  test("an unfinished handshake counts as 250 KiB of half of the heap", async (t) => {
    const tls = makeCertificate(t, "localhost");
    const warnings = collectWarnings(t, "connectionsMax");
    const service = await withHeap(t, 1200 * KIB, () => startService(t, { tls }));
    const finished = await Client.connectSecurely(service.port, tls.cert);
    const first = await Client.connect(service.port);
    assert.deepEqual(warnings, []);
    const second = await Client.connect(service.port); // 616 KiB
    await closed(finished);
    assert.equal(warnings.length, 1);
    const third = await Client.connect(service.port); // 750 KiB
    await closed(first);
    for (const client of [second, third]) client.destroy();
  });
});

/** Calls a function as in a process with another limit of the heap. */
async function withHeap<Made>(
  t: TestContext,
  bytes: number,
  make: () => Promise<Made>,
): Promise<Made> {
  const heap = { ...getHeapStatistics(), heap_size_limit: bytes };
  const fake = t.mock.method(v8, "getHeapStatistics", () => heap); // FAKE: a flag sets it for a process
  syncBuiltinESMExports();
  try {
    return await make();
  } finally {
    fake.mock.restore();
    syncBuiltinESMExports();
  }
}
