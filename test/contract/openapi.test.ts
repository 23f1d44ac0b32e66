/** The OpenAPI document beside the code: its operations, scopes, limits and schemas. The rows check the responses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ERRORS, statusOf } from "../../src/core/errors.ts";
import { PLANT, PLANTS } from "../../src/http/listener.ts";
import { LIMIT_DEFAULT, LIMIT_MAX } from "../../src/http/reads.ts";
import { OPENAPI } from "../../src/index.ts";

// biome-ignore lint/suspicious/noExplicitAny: what is tested is the very shape of it
type Loose = any;
const DOCUMENT = OPENAPI as Loose;
const OPERATIONS = Object.entries<Loose>(DOCUMENT.paths).flatMap(([path, item]) =>
  Object.keys(item)
    .filter((method) => /^(get|head|post|put|patch|delete|options|trace)$/.test(method))
    .map((method) => ({ name: `${method.toUpperCase()} ${path}`, operation: item[method] })),
);

test("the document describes exactly the operations that there are, with their names and scopes", () => {
  const described = OPERATIONS.map(({ name, operation }) => {
    const [{ bearerAuth: scopes }] = operation.security;
    return [name, operation.operationId, ...scopes].join(" ");
  });
  const resources = { "/plants": PLANTS, "/plants/{id}": PLANT };
  const routed = Object.entries(resources).flatMap(([path, operations]) =>
    Array.from(operations, ([method, name]) => {
      return `${method} ${path} ${name} ${name === "createPlant" ? "write" : "read"}`;
    }),
  );
  const isDescribed = (route: string) => !route.startsWith("HEAD");
  assert.deepEqual(described.sort(), routed.filter(isDescribed).sort());
});

test("what the interface lacks is marked as an addition", () => {
  for (const { name, operation } of OPERATIONS) {
    assert.deepEqual(operation.tags, [name === "POST /plants" ? "interface" : "additions"]);
    assert.deepEqual(Object.keys(operation.responses), ["200", "400", "4XX", "5XX"]);
  }
  const { BadRequest, ...others } = DOCUMENT.components.responses;
  assert.equal(BadRequest["x-addition"], undefined);
  for (const { "x-addition": isAddition } of Object.values<Loose>(others)) assert.ok(isAddition);
});

test("examples have an existing number of their class, and a page has its limits", () => {
  for (const [status, { $ref = "" }] of Object.entries<Loose>(OPERATIONS[0]?.operation.responses)) {
    const found = DOCUMENT.components.responses[$ref.split("/").at(-1)];
    if (found === undefined) continue;
    const { error } = found.content["application/json"].example;
    assert.ok(new Set<number>(Object.values(ERRORS)).has(error));
    assert.match(String(statusOf(error)), new RegExp(status.replaceAll("X", ".")));
  }
  const { minimum, maximum, default: usual } = DOCUMENT.paths["/plants"].get.parameters[0].schema;
  assert.deepEqual([minimum, maximum, usual], [1, LIMIT_MAX, LIMIT_DEFAULT]);
});

test("the schemas of the interface are described exactly", () => {
  const withoutText = JSON.parse(JSON.stringify(DOCUMENT.components.schemas), (name, value) =>
    name === "description" ? undefined : value,
  );
  const string = { type: "string" };
  const id = { type: "integer", format: "int64" };
  const error = { type: "integer", format: "int32" };
  const object = (required: readonly string[], properties: object) => {
    return { type: "object", required, properties };
  };
  assert.deepEqual(withoutText, {
    Plant: object(["name"], { name: string, tag: string }),
    NewPlant: object(["id", "name"], { id, name: string, tag: string }),
    Error: object(["error", "message"], { error, message: string }),
  });
  const { openapi, info, components } = DOCUMENT;
  assert.deepEqual(
    [openapi, info.title, info.version, info.license.name],
    ["3.1.0", "OpenAPI Plant Store", "1.0.0", "MIT"],
  );
  const { type, scheme } = components.securitySchemes.bearerAuth;
  assert.deepEqual([type, scheme], ["http", "bearer"]);
});

test("every part of the document is used, and every reference leads to a part", () => {
  const text = JSON.stringify(DOCUMENT);
  const parts = Object.entries<Loose>(DOCUMENT.components)
    .filter(([kind]) => kind !== "securitySchemes")
    .flatMap(([kind, all]) => Object.keys(all).map((name) => `#/components/${kind}/${name}`));
  const used = new Set(Array.from(text.matchAll(/"\$ref":"([^"]*)"/g), ([, path]) => path));
  assert.deepEqual([...used].sort(), parts.sort());
});
