/**
 * Compares the OpenAPI document with the code: every path, method, scope, status,
 * header and error number of one is in the other. The answers are those of a real server.
 */
import assert from "node:assert/strict";
import { unlinkSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { conflict, isSamePlant } from "../../src/core/plant.ts";
import { FAILURES } from "../../src/http/answer.ts";
import { overloaded } from "../../src/http/body.ts";
import { RESOURCES } from "../../src/http/listener.ts";
import { LIMIT_DEFAULT, LIMIT_MAX } from "../../src/http/reads.ts";
import {
  OPENAPI,
  PlantServer,
  type PlantService,
  PlantStoreError,
  type ServerOptions,
} from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { failReads } from "../support/failing-reads.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath, openStore, writeLog } from "../support/stores.ts";

interface Described {
  readonly description: string;
  readonly "x-addition"?: boolean;
  readonly headers: Record<string, { readonly "x-addition"?: boolean }>;
  readonly content?: Record<string, { examples: Record<string, { value: unknown }> }>;
}

interface DescribedOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly security: readonly { bearerAuth?: readonly string[] }[];
  readonly responses: Record<string, Described>;
}

/** The document without references. */
// biome-ignore lint/suspicious/noExplicitAny: what is tested is the very shape of it
type Loose = any;
const LOOSE = OPENAPI as Loose;
const DOCUMENT = resolve(OPENAPI) as {
  paths: Record<string, Record<string, DescribedOperation>>;
  components: Record<"responses" | "headers" | "schemas", Record<string, Described>>;
};

function resolve(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(resolve);
  if (typeof value !== "object" || value === null) return value;
  if ("$ref" in value) {
    const [, ...names] = String(value.$ref).split("/");
    // biome-ignore lint/suspicious/noExplicitAny: a walk through a document of any shape
    const part = names.reduce((inner: any, name) => inner[name], OPENAPI);
    assert.ok(part !== undefined, String(value.$ref));
    return resolve(part);
  }
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, resolve(inner)]));
}

const METHODS = ["get", "head", "post", "put", "patch", "delete", "options", "trace"];

const OPERATIONS = Object.entries(DOCUMENT.paths).flatMap(([path, item]) =>
  METHODS.filter((method) => method in item).map((method) => {
    return { path, method: method.toUpperCase(), operation: item[method] as DescribedOperation };
  }),
);

test("the document describes exactly the paths and methods that there are", () => {
  const described = OPERATIONS.map(({ path, method }) => `${method} ${path}`);
  const routed = RESOURCES.flatMap(({ path, operations }) =>
    [...operations.keys()]
      .filter((method) => method !== "HEAD")
      .map((method) => `${method} ${path}`),
  );
  assert.deepEqual(described.sort(), routed.sort());
});

test("the document has the name and the scope of every operation, and marks additions", () => {
  for (const { path, method, operation } of OPERATIONS) {
    const found = RESOURCES.find((resource) => resource.path === path)?.operations.get(method);
    assert.deepEqual(operation.security, [{ bearerAuth: [found?.scope] }]);
    assert.equal(operation.operationId, found?.name);
    const isInterface = `${method} ${path}` === "POST /plants";
    assert.deepEqual(operation.tags, [isInterface ? "interface" : "additions"]);
  }
});

test("answers and headers added to the interface's own operation are marked", () => {
  for (const { operation } of OPERATIONS.filter(
    ({ operation }) => operation.tags[0] === "interface",
  )) {
    for (const [status, response] of Object.entries(operation.responses)) {
      const isInterface = status === "200" || status === "400";
      assert.equal(response["x-addition"], isInterface ? undefined : true, status);
      for (const [name, header] of Object.entries(response.headers)) {
        assert.equal(header["x-addition"], true, name);
      }
    }
  }
});

/** The failures in the examples of an answer, with the codes that name the examples. */
function failuresOf({ content }: Described): [code: string, error: number, message: string][] {
  return Object.entries(content?.["application/json"]?.examples ?? {}).flatMap(
    ([code, { value }]) => {
      const { error, message } = value as { error?: number; message?: unknown };
      return error !== undefined && typeof message === "string" ? [[code, error, message]] : [];
    },
  );
}

test("the document has every error number at its status, named by its code, and no other", () => {
  const described = new Map<string, number>();
  for (const { operation } of OPERATIONS) {
    for (const [status, response] of Object.entries(operation.responses)) {
      if (Number(status) < 400) continue;
      assert.notEqual(failuresOf(response).length, 0);
      for (const [code, error] of failuresOf(response)) {
        assert.equal(Math.floor(error / 100), Number(status), code);
        described.set(code, error);
      }
    }
  }
  const known = Object.entries(FAILURES).map(([code, { error }]) => [code, error]);
  // The error of every other method, which no operation answers.
  described.set("method_not_allowed", FAILURES.method_not_allowed.error);
  assert.ok(LOOSE.info.description.includes(FAILURES.method_not_allowed.error));
  assert.deepEqual([...described].sort(), known.sort());
});

test("the document has the limits of a page", () => {
  const [limit] = LOOSE.paths["/plants"].get.parameters;
  const { minimum, maximum, default: usual } = limit.schema;
  assert.deepEqual([minimum, maximum, usual], [1, LIMIT_MAX, LIMIT_DEFAULT]);
});

test("the schemas of the interface are described exactly", () => {
  const { schemas } = LOOSE.components;
  const shapes = Object.entries<Loose>(schemas).map(([name, { type, required, properties }]) => [
    name,
    type,
    required,
    Object.fromEntries(
      Object.entries<Loose>(properties).map(([member, { description: _, ...rest }]) => [
        member,
        rest,
      ]),
    ),
  ]);
  const string = { type: "string" };
  const id = { type: "integer", format: "int64" };
  const error = { type: "integer", format: "int32" };
  assert.deepEqual(shapes, [
    ["Plant", "object", ["name"], { name: string, tag: string }],
    ["NewPlant", "object", ["id", "name"], { id, name: string, tag: string }],
    ["Error", "object", ["error", "message"], { error, message: string }],
  ]);
  const { openapi, info } = LOOSE;
  assert.deepEqual(
    [openapi, info.title, info.version, info.license.name],
    ["3.1.0", "OpenAPI Plant Store", "1.0.0", "MIT"],
  );
  const { type, scheme } = LOOSE.components.securitySchemes.bearerAuth;
  assert.deepEqual([type, scheme], ["http", "bearer"]);
});

const APP = "https://app.example";
const STORED = { id: 7n, name: "Fern" };
const BODY = '{"id":7,"name":"Fern"}';

/** A store that fails on demand, because no real store can fail in all these ways. */
const PLANTS: PlantService = {
  create: async (plant) => {
    const { id } = plant;
    fail(id);
    if (id === 502n) throw new PlantStoreError("write_failed", "no room");
    if (id === 505n) throw new PlantStoreError("not_stored", "no room");
    if (id !== STORED.id) return "created";
    if (isSamePlant(plant, STORED)) return "replayed";
    throw conflict(id);
  },
  get: async (id) => {
    fail(id);
    failRead(id);
    return id === STORED.id ? STORED : undefined;
  },
  async *list({ after } = {}) {
    fail(after);
    failRead(after);
    if (after === 9n)
      throw new PlantStoreError(
        "unknown_cursor",
        `after: expected the id of a plant, got ${after}`,
      );
    yield STORED;
    yield { id: 8n, name: "Ivy" };
  },
};

function fail(id: bigint | undefined): void {
  if (id === 500n) throw new Error("a defect");
  if (id === 501n) throw overloaded();
  if (id === 503n) throw new PlantStoreError("store_failed", "gone");
  if (id === 504n) throw new PlantStoreError("closed", "closed");
}

function failRead(id: bigint | undefined): void {
  if (id === 507n) throw new PlantStoreError("read_failed", "the disk");
}

const FAILING = [500, 501, 503, 504];
const FAILING_READS = [...FAILING, 507];

/** For a request that never arrives whole. On a busy machine other requests may be late, too. */
const IMPATIENT = { headerTimeoutMs: 200, requestTimeoutMs: 200, connectionCheckIntervalMs: 20 };

async function start(t: TestContext, limits: Partial<ServerOptions> = {}) {
  const server = await PlantServer.start({
    port: 0,
    plants: PLANTS,
    corsOrigins: [APP],
    ...limits,
    tokens: {
      verify: (token) => {
        if (token === "failing") throw new Error("a defect");
        if (token === "unread") throw new PlantStoreError("tokens_unreadable", "tokens_unreadable");
        if (token === "read" || token === "write") return { name: token, scopes: [token] };
        return token === "good" ? { name: token, scopes: ["read", "write"] } : undefined;
      },
    },
  });
  t.after(() => server.close(0));
  return { url: server.url, port: Number(new URL(server.url).port), token: "good" };
}

const TAG = { "If-None-Match": "*" };
const TOKEN = (token: string) => ({ Authorization: `Bearer ${token}` });

/** Requests that apply to every operation. */
const ANY: readonly RequestParts[] = [
  {},
  { headers: { Authorization: undefined } },
  { headers: TOKEN("wrong") },
  { headers: TOKEN("failing") },
  { headers: TOKEN("unread") },
  { headers: TOKEN("read") },
  { headers: TOKEN("write") },
  { headers: { Host: ["a", "b"] } },
  { headers: { Expect: "x" } },
  { headers: { X: "x".repeat(20_000) } },
  { headers: TAG },
];

const MORE: Readonly<Record<string, readonly RequestParts[]>> = {
  "POST /plants": [
    ...[7, 502, 505, ...FAILING].map((id) => ({ body: `{"id":${id},"name":"x"}` })),
    ...['{"id":"7"}', "{", "[]"].map((body) => ({ body })),
    { body: '{"id":1,"id":1,"name":"x"}' },
    { body: Buffer.from([0xff]) },
    { headers: { "Content-Type": undefined } },
    { headers: { "Content-Encoding": "gzip" } },
    { headers: { "Content-Length": "1048577" } },
  ],
  "/plants": [
    { target: "/plants?limit=1" },
    { target: "/plants?limit=x" },
    { target: "/plants?after=9" },
    ...FAILING_READS.map((id) => ({ target: `/plants?after=${id}` })),
    { headers: { Accept: "application/x-ndjson" } },
  ],
  "/plants/{id}": ["9", "007", ...FAILING_READS].map((id) => ({ target: `/plants/${id}` })),
};

/** All requests for an operation. */
function requestsFor(method: string, path: string): RequestParts[] {
  const target = path.replace("{id}", "7");
  return [...ANY, ...(MORE[path] ?? []), ...(MORE[`${method} ${path}`] ?? [])].map((parts) => ({
    target,
    ...(method === "POST" ? { body: BODY } : {}),
    ...parts,
    method,
    headers: { Origin: APP, ...parts.headers },
  }));
}

/** Headers of the connection, of any message with a body, or of the CORS protocol. */
const UNDESCRIBED =
  /^(connection|keep-alive|date|transfer-encoding|content-length|content-type|access-control-.*): /;

/** Status and headers of the answer, and the failure in its body. */
async function ask(
  target: Awaited<ReturnType<typeof start>>,
  parts: RequestParts,
  isCut: boolean,
): Promise<{ status: string; names: string[]; failure?: { error: number; message: string } }> {
  const client = await Client.connect(target.port);
  const request = encodeRequest(target, parts);
  await client.send(isCut ? request.subarray(0, request.indexOf("\r\n\r\n")) : request);
  const head = await client.head();
  const [statusLine = "", ...lines] = head.toLowerCase().split("\r\n");
  const names = lines.filter((line) => !UNDESCRIBED.test(line)).map((line) => line.split(":")[0]);
  const status = statusLine.split(" ")[1] ?? "";
  const answer = { status, names: names as string[] };
  const whole =
    Number(status) >= 400 ? { ...answer, failure: JSON.parse((await client.next()).text) } : answer;
  client.destroy();
  return whole;
}

for (const { path, method, operation } of OPERATIONS) {
  test(`${method} ${path} is answered exactly as described`, async (t) => {
    const patient = await start(t);
    const impatient = await start(t, IMPATIENT);
    const seen = new Map<string, Set<string>>();
    const answered = new Map<number, string[]>();
    const requests = requestsFor(method, path);
    // The last request never ends its headers.
    for (const [index, parts] of [...requests, ...requests.slice(0, 1)].entries()) {
      const isCut = index === requests.length;
      const { status, names, failure } = await ask(isCut ? impatient : patient, parts, isCut);
      const described = operation.responses[status];
      assert.ok(described !== undefined, `${status} is not described: ${JSON.stringify(parts)}`);
      const known = Object.keys(described.headers).map((name) => name.toLowerCase());
      const unknown = names.filter((name) => !known.includes(name));
      assert.deepEqual(unknown, [], `headers of ${status} that are not described`);
      const all = seen.get(status) ?? new Set();
      for (const name of names) all.add(name);
      seen.set(status, all);
      if (failure !== undefined) {
        answered.set(failure.error, [
          ...(answered.get(failure.error) ?? []),
          shapeOf(failure.message),
        ]);
      }
    }
    assert.deepEqual([...seen.keys()].sort(), Object.keys(operation.responses).sort());
    for (const [status, names] of seen) {
      const described = Object.keys(operation.responses[status]?.headers ?? {});
      assert.deepEqual(
        [...names].sort(),
        described.map((name) => name.toLowerCase()).sort(),
        status,
      );
    }
    const failures = Object.values(operation.responses).flatMap(failuresOf);
    assert.deepEqual([...answered.keys()].sort(), failures.map(([, error]) => error).sort());
    for (const [code, error, message] of failures.filter(([code]) => !MADE_UP.has(code))) {
      const shapes = answered.get(error) ?? [];
      assert.ok(shapes.includes(shapeOf(message)), `${code}: ${shapes.join(" | ")}`);
    }
  });
}

/** A message without the parts that differ between operations. */
function shapeOf(message: string): string {
  return message.replace(/"[^"]*"|[A-Z]{3,}(?:, [A-Z]{3,})*|\d+/g, "_");
}

/** Real failures of a store, which the store above only imitates. */
const MADE_UP = new Set([
  "write_failed",
  "not_stored",
  "store_failed",
  "closed",
  "tokens_unreadable",
  "read_failed",
]);

test("the examples of 50303, 50304 and 50307 are the store's own messages", async (t) => {
  const described = new Map(
    OPERATIONS.flatMap(({ operation }) => Object.values(operation.responses))
      .flatMap(failuresOf)
      .map(([code, , message]) => [code, message]),
  );
  const folder = makeFolder(t);
  writeLog(folder, `${BODY}\n`);
  const store = await openStore(t, folder);
  failReads(t).begin();
  const unread = { code: "read_failed", message: described.get("read_failed") };
  await assert.rejects(store.get(STORED.id), unread);
  unlinkSync(logPath(folder));
  const failed = { code: "store_failed", message: described.get("store_failed") };
  await assert.rejects(store.create(STORED), failed);
  await assert.rejects(store.get(STORED.id), failed);
  await store.close();
  const closed = { code: "closed", message: described.get("closed") };
  await assert.rejects(store.get(STORED.id), closed);
});

test("every component is used", () => {
  const text = JSON.stringify(OPENAPI);
  for (const [kind, parts] of Object.entries<Loose>(LOOSE.components)) {
    if (kind === "securitySchemes") continue;
    for (const name of Object.keys(parts)) {
      assert.ok(text.includes(`"#/components/${kind}/${name}"`), `${kind}/${name}`);
    }
  }
});
