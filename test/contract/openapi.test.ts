/** The OpenAPI document beside the code: its operations, scopes, limits and schemas. The rows check the responses. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ERRORS } from "../../src/core/errors.ts";
import { PLANT, PLANTS } from "../../src/http/listener.ts";
import { LIMIT_DEFAULT, LIMIT_MAX } from "../../src/http/reads.ts";
import { OPENAPI } from "../../src/index.ts";

// biome-ignore lint/suspicious/noExplicitAny: what is tested is the very shape of it
type Loose = any;
const DOCUMENT = OPENAPI as Loose;
const KNOWN = new Set<number>(Object.values(ERRORS));
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

test("a page has the limits of its code, and examples have existing numbers", () => {
  const { minimum, maximum, default: usual } = DOCUMENT.paths["/plants"].get.parameters[0].schema;
  assert.deepEqual([minimum, maximum, usual], [1, LIMIT_MAX, LIMIT_DEFAULT]);
  const numbers = Array.from(JSON.stringify(DOCUMENT).matchAll(/"error":(\d+)/g), ([, n]) =>
    Number(n),
  );
  assert.ok(numbers.length > 0 && numbers.every((n) => KNOWN.has(n)), `${numbers}`);
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
