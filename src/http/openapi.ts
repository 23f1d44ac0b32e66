/**
 * The owner's interface as an OpenAPI 3.1.0 document, exactly. Added operations have the tag `additions`, and the
 * added response has the member `x-addition`; the table of errors is in docs/api.md.
 */
import { LIMIT_DEFAULT, LIMIT_MAX } from "./reads.ts";

const INT64 = { type: "integer", format: "int64" };
const INT32 = { type: "integer", format: "int32" };
const NAME = { type: "string", description: "The name of the plant." };
const TAG = { type: "string", description: "The tag that specifies the type of the plant." };
const ID = { ...INT64, description: "Any int64, exactly." };
const NUMBER = { ...INT32, description: "The status times 100, plus a number. Never changes." };
const MESSAGE = { type: "string", description: "For people. May change." };

const FERN = { id: 7, name: "Fern", tag: "indoor" };
const LINES = { schema: { type: "string" }, example: `${JSON.stringify(FERN)}\n` };

const schema = (name: string) => ({ $ref: `#/components/schemas/${name}` });
const object = (required: readonly string[], properties: object) => {
  return { type: "object", required, properties };
};
const json = (schema: object, example: unknown) => ({ "application/json": { schema, example } });
const failure = (description: string, error: number, message: string) => {
  return { description, content: json(schema("Error"), { error, message }) };
};
const responses = (description: string, content: object) => ({
  200: { description, content },
  400: { $ref: "#/components/responses/BadRequest" },
  default: { $ref: "#/components/responses/OtherError" },
});

/** For any OpenAPI tool; its members are those of OpenAPI 3.1.0. */
export const OPENAPI: Readonly<Record<string, unknown>> = {
  openapi: "3.1.0",
  info: {
    title: "OpenAPI Plant Store",
    version: "1.0.0",
    description:
      "Keeps plants and never loses one. What has the tag `additions` or is marked `x-addition` is not part of the interface. `HEAD` works for every path that has `GET`. Every response has `Cache-Control: no-store`, `X-Content-Type-Options: nosniff` and `X-Request-Id`.",
    license: { name: "MIT", identifier: "MIT" },
  },
  servers: [{ url: "{base_url}", variables: { base_url: { default: "http://127.0.0.1:8080" } } }],
  security: [{ bearerAuth: [] }],
  paths: {
    "/plants": {
      post: {
        operationId: "createPlant",
        tags: ["interface"],
        description:
          "Creates a new plant in the store. The same plant sent again gets the same response, and nothing is stored: a client that got no response sends the identical request again.",
        security: [{ bearerAuth: ["write"] }],
        requestBody: { required: true, content: json(schema("NewPlant"), FERN) },
        responses: responses(
          "Plant response: the plant was created, and is on the disk.",
          json(schema("Plant"), { name: FERN.name, tag: FERN.tag }),
        ),
      },
      get: {
        operationId: "listPlants",
        tags: ["additions"],
        description:
          "Lists plants in the order of their creation: a page of at most `limit` plants and about 1 MiB, whose `Link` header leads to the next one; or a stream, a NewPlant a line, if `Accept` names `application/x-ndjson`. A stream without `limit` has all plants.",
        security: [{ bearerAuth: ["read"] }],
        parameters: [
          {
            name: "limit",
            in: "query",
            schema: { ...INT32, minimum: 1, maximum: LIMIT_MAX, default: LIMIT_DEFAULT },
          },
          { name: "after", in: "query", description: "An id: start after it.", schema: INT64 },
        ],
        responses: responses("The plants.", {
          ...json({ type: "array", items: schema("NewPlant") }, [FERN]),
          "application/x-ndjson": LINES,
        }),
      },
    },
    "/plants/{id}": {
      get: {
        operationId: "getPlant",
        tags: ["additions"],
        description: "Reads a plant by its id, written without leading zeros or `+`.",
        security: [{ bearerAuth: ["read"] }],
        parameters: [{ name: "id", in: "path", required: true, schema: INT64, example: FERN.id }],
        responses: responses("The plant, which never changes.", json(schema("NewPlant"), FERN)),
      },
    },
  },
  components: {
    securitySchemes: { bearerAuth: { type: "http", scheme: "bearer" } },
    schemas: {
      Plant: object(["name"], { name: NAME, tag: TAG }),
      NewPlant: object(["id", "name"], { id: ID, name: NAME, tag: TAG }),
      Error: object(["error", "message"], { error: NUMBER, message: MESSAGE }),
    },
    responses: {
      BadRequest: failure("Unexpected error", 40005, "id: expected an int64, got 7.5"),
      OtherError: {
        "x-addition": true,
        ...failure("Another failure. After a 5XX send it again", 50301, "too many requests"),
      },
    },
  },
};
