/**
 * The interface as an OpenAPI 3.1.0 document, written by hand.
 *
 * It holds the owner's interface exactly, and what was added to it: operations
 * marked by the tag `additions`, answers and headers by `x-addition`. A test
 * holds it against the code: every path, method, scope, status, header and
 * error number of one is in the other.
 */
import {
  bareHeaders,
  COMPONENTS,
  type Failures,
  failure,
  headers,
  headResponses,
  ref,
} from "./openapi-components.ts";

/** Any request may be answered so. */
const ALWAYS = {
  401: ref("responses", "Unauthorized"),
  408: ref("responses", "TooSlow"),
  431: ref("responses", "HeadersTooLarge"),
  500: ref("responses", "Internal"),
  503: ref("responses", "TokensUnreadable"), // an operation has more of them
};

/** And so, where it is a request for an operation. */
const FAILURES = {
  ...ALWAYS,
  403: ref("responses", "Forbidden"),
  417: ref("responses", "ExpectationFailed"),
  503: ref("responses", "Unavailable"), // a create has one of its own
};

const FERN = { id: 7, name: "Fern", tag: "indoor" };

const CREATE_PLANT = {
  operationId: "createPlant",
  summary: "Create a plant",
  description:
    "Creates a new plant in the store. The same plant sent again is answered alike and stored once, so a client that lost an answer sends the identical request again.",
  tags: ["interface"],
  security: [{ bearerAuth: ["write"] }],
  requestBody: {
    required: true,
    content: {
      "application/json": {
        schema: ref("schemas", "NewPlant"),
        examples: { fern: { value: FERN }, untagged: { value: { id: 8, name: "Ivy" } } },
      },
    },
  },
  responses: {
    200: {
      description: "Plant response: the plant was created, and is on the disk.",
      headers: headers(),
      content: {
        "application/json": {
          schema: ref("schemas", "Plant"),
          examples: {
            fern: { value: { name: "Fern", tag: "indoor" } },
            untagged: { value: { name: "Ivy" } },
          },
        },
      },
    },
    400: failure("Unexpected error", {
      bad_request: [40001, "Host: expected one header, got 2"],
      invalid_utf8: [40002, "expected text in UTF-8, got other bytes"],
      invalid_json: [
        40003,
        "malformed JSON: expected a member name at its byte 2, got the end of the text",
      ],
      duplicate_member: [40004, "id: expected once, given 2 times"],
      invalid_plant: [40005, 'id: expected an int64, got the string "7"; name: required'],
      conflict: [
        40006,
        "Cannot create plant 7: the id belongs to a plant with another name or tag",
      ],
    }),
    413: ref("responses", "TooLarge"),
    415: ref("responses", "UnsupportedMediaType"),
    ...FAILURES,
    503: ref("responses", "CreateUnavailable"),
  },
};

const LIST_PLANTS = {
  summary: "List plants in the order of their creation",
  description:
    "A page of plants, no longer than `limit` and about 1 MiB, with a link to the next one; or, where `application/x-ndjson` is accepted with a higher quality than `application/json`, all of them as a stream.",
  tags: ["additions"],
  security: [{ bearerAuth: ["read"] }],
  parameters: [ref("parameters", "limit"), ref("parameters", "after")],
  responses: {
    200: {
      description: "Plants.",
      headers: headers("Link"),
      content: {
        "application/json": {
          schema: { type: "array", items: ref("schemas", "NewPlant") },
          examples: { page: { value: [FERN, { id: 8, name: "Ivy" }] } },
        },
        "application/x-ndjson": {
          schema: { type: "string", description: "A NewPlant a line." },
          examples: { lines: { value: '{"id":7,"name":"Fern","tag":"indoor"}\n' } },
        },
      },
    },
    400: failure("The request is not valid HTTP, or its query not a list's.", {
      bad_request: [40001, "Host: expected one header, got 2"],
      invalid_query: [40007, 'limit: expected one whole number from 1 to 1000, got "x"'],
      unknown_cursor: [40008, "after: expected the id of a plant, got 9"],
    }),
    ...FAILURES,
  },
};

const NOT_FOUND: Failures = { not_found: [40401, "path: expected /plants or /plants/{id}"] };

const GET_PLANT = {
  summary: "Get a plant",
  tags: ["additions"],
  security: [{ bearerAuth: ["read"] }],
  parameters: [ref("parameters", "ifNoneMatch")],
  responses: {
    200: {
      description: "The plant, which never changes.",
      headers: headers("ETag"),
      content: {
        "application/json": {
          schema: ref("schemas", "NewPlant"),
          examples: { fern: { value: FERN } },
        },
      },
    },
    304: {
      description: "The plant has one of the tags that were sent.",
      headers: bareHeaders("ETag"),
    },
    400: ref("responses", "BadRequest"),
    404: failure("There is no such plant, or its id is not in the canonical form.", {
      ...NOT_FOUND,
      unknown_plant: [40402, "id: there is no plant 9"],
    }),
    ...FAILURES,
  },
};

const PREFLIGHT = {
  summary: "Ask what a page of another origin may send, where it is let in",
  tags: ["additions"],
  security: [],
  responses: {
    204: {
      description: "What may be sent; to a path where nothing is, whatever may be sent anywhere.",
      headers: bareHeaders(
        "Access-Control-Allow-Headers",
        "Access-Control-Allow-Methods",
        "Access-Control-Max-Age",
      ),
    },
    400: ref("responses", "BadRequest"),
    405: failure(
      "A request with a token that is no preflight.",
      { method_not_allowed: [40501, "method: expected one of GET, HEAD, POST, got OPTIONS"] },
      "Allow",
    ),
    ...ALWAYS,
  },
};

function headOf<T extends { readonly responses: Readonly<Record<string, object>> }>(operation: T) {
  return { ...operation, responses: headResponses(operation.responses) };
}

/** For any OpenAPI tool; its members are those of OpenAPI 3.1.0. */
export const OPENAPI: Readonly<Record<string, unknown>> = {
  openapi: "3.1.0",
  info: {
    title: "OpenAPI Plant Store",
    version: "1.0.0",
    summary: "Keeps plants and never loses one.",
    license: { name: "MIT", identifier: "MIT" },
  },
  servers: [
    {
      url: "{base_url}",
      variables: { base_url: { default: "http://127.0.0.1:8080", description: "The service." } },
    },
  ],
  security: [{ bearerAuth: [] }],
  tags: [
    { name: "interface", description: "The interface of the plant store." },
    {
      name: "additions",
      description:
        "Additive to the interface, which needs none of it; nor of what is marked `x-addition`.",
    },
  ],
  paths: {
    "/plants": {
      get: { operationId: "listPlants", ...LIST_PLANTS },
      head: { operationId: "headPlants", ...headOf(LIST_PLANTS) },
      post: CREATE_PLANT,
      options: { operationId: "preflightPlants", ...PREFLIGHT },
    },
    "/plants/{id}": {
      parameters: [ref("parameters", "id")],
      get: { operationId: "getPlant", ...GET_PLANT },
      head: { operationId: "headPlant", ...headOf(GET_PLANT) },
      options: {
        operationId: "preflightPlant",
        ...PREFLIGHT,
        responses: {
          ...PREFLIGHT.responses,
          404: failure("No preflight, and an id not in the canonical form.", NOT_FOUND),
        },
      },
    },
  },
  components: COMPONENTS,
};
