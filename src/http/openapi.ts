/**
 * The interface as an OpenAPI 3.1.0 document, written by hand.
 *
 * It holds the owner's interface exactly, and what was added to it: operations
 * marked by the tag `additions`, answers and headers by `x-addition`. A test
 * holds it against the code: every path, method, scope, status, header and
 * error number of one is in the other.
 */

import type { RequestErrorCode } from "../core/errors.ts";
import { FAILURES } from "./reply.ts";

/** Points to a part. */
function ref(kind: "schemas" | "responses" | "headers" | "parameters", name: string) {
  return { $ref: `#/components/${kind}/${name}` };
}

/** What any answer carries, the last three only where pages of other origins are let in, or `Vary` on lists. */
const COMMON_HEADERS = [
  "Cache-Control",
  "X-Request-Id",
  "Access-Control-Allow-Origin",
  "Access-Control-Expose-Headers",
  "Vary",
];

/** The headers of an answer without a body, by the names under which they are described. */
function bareHeaders(...more: readonly string[]) {
  const names = [...COMMON_HEADERS, ...more];
  return Object.fromEntries(names.map((name) => [name, ref("headers", name)]));
}

/** The headers of an answer with a body. */
function headers(...more: readonly string[]) {
  return bareHeaders("X-Content-Type-Options", ...more);
}

/** Messages by the code of the failure. */
type Failures = Partial<Readonly<Record<RequestErrorCode, string>>>;

/** A failure, with an example for each of its numbers; headers behind them. */
function failure(description: string, failures: Failures, ...more: readonly string[]) {
  const examples = Object.entries(failures).map(([code, message]) => {
    return [code, { value: { error: FAILURES[code as RequestErrorCode].error, message } }];
  });
  return {
    description,
    headers: headers(...more),
    content: {
      "application/json": {
        schema: ref("schemas", "Error"),
        examples: Object.fromEntries(examples),
      },
    },
  };
}

/** What the owner's interface has not, also where an operation of it has it. */
const ADDITION = { "x-addition": true };

function added(...parts: Parameters<typeof failure>) {
  return { ...ADDITION, ...failure(...parts) };
}

function header(description: string, example: string | number) {
  const type = typeof example === "number" ? "integer" : "string";
  return { ...ADDITION, description, schema: { type }, example };
}

const ID = {
  type: "integer",
  format: "int64",
  description:
    "The identification number of the plant: any int64, exactly. JavaScript's `JSON.parse` loses digits beyond 2^53.",
};

const PLANT = {
  name: { type: "string", description: "The name of the plant." },
  tag: { type: "string", description: "The tag that specifies the type of the plant." },
};

const TOKENS_UNREADABLE: Failures = {
  tokens_unreadable:
    "Authorization: cannot judge tokens now, because the server cannot read its token file; send the request again later",
};

const UNAVAILABLE: Failures = {
  overloaded: "Cannot take the request now: too many are under way; send it again later",
  store_failed:
    "Cannot use the store: it has stopped after a failure of its disk or data directory; the outcome of a create is unknown: send the identical request again",
  closed: "Cannot use the store: it is closed",
  ...TOKENS_UNREADABLE,
};

const COMPONENTS = {
  securitySchemes: {
    bearerAuth: {
      type: "http",
      scheme: "bearer",
      description:
        "A token from the operator. Scopes are an addition: `write` is for the interface, `read` for the additions.",
    },
  },
  schemas: {
    Plant: { type: "object", required: ["name"], properties: PLANT },
    NewPlant: { type: "object", required: ["id", "name"], properties: { id: ID, ...PLANT } },
    Error: {
      type: "object",
      required: ["error", "message"],
      properties: {
        error: {
          type: "integer",
          format: "int32",
          description: "The kind of failure: the status times 100, and a number. Never changes.",
        },
        message: { type: "string", description: "For people. May change." },
      },
    },
  },
  parameters: {
    id: {
      name: "id",
      in: "path",
      required: true,
      description:
        "The id in its canonical form: digits without a sign or zeros before them, or with `-`.",
      schema: { type: "integer", format: "int64" },
      example: 7,
    },
    limit: {
      name: "limit",
      in: "query",
      description: "How many plants at most; a stream has all where none is given.",
      schema: { type: "integer", format: "int32", minimum: 1, maximum: 1000, default: 100 },
    },
    after: {
      name: "after",
      in: "query",
      description: "The id of the plant behind which to begin.",
      schema: { type: "integer", format: "int64" },
    },
    ifNoneMatch: {
      name: "If-None-Match",
      in: "header",
      description: "Tags of what the client has.",
      schema: { type: "string" },
      example: '"shTb6xM-xZAPIh8vb0ej9u"',
    },
  },
  headers: {
    Accept: header("The media type that would have been taken.", "application/json"),
    "Accept-Encoding": header("The coding that would have been taken.", "identity"),
    "Access-Control-Allow-Headers": header("What a page may send.", "Authorization, Content-Type"),
    "Access-Control-Allow-Methods": header("The methods of the path.", "GET, HEAD, POST"),
    "Access-Control-Allow-Origin": header("Whose pages are let in.", "https://app.example"),
    "Access-Control-Expose-Headers": header("What a page may read.", "ETag, Link"),
    "Access-Control-Max-Age": header("For how many seconds that holds.", 7200),
    Allow: header("The methods of the path.", "GET, HEAD, POST"),
    "Cache-Control": header("Who may keep the answer.", "no-store"),
    ETag: header("The tag of the plant; strong.", '"shTb6xM-xZAPIh8vb0ej9u"'),
    Link: header(
      "The next page, relative to this one; none behind the last.",
      '<?limit=100&after=107>; rel="next"',
    ),
    "Retry-After": header("In how many seconds to send the request again.", 1),
    Vary: header("What the answer depends on.", "Origin"),
    "WWW-Authenticate": header("What is needed.", 'Bearer realm="plant-store"'),
    "X-Content-Type-Options": header("Always `nosniff`.", "nosniff"),
    "X-Request-Id": header(
      "The client's own where it is safe, else one of ours.",
      "d293887cb9f4-51",
    ),
  },
  responses: {
    BadRequest: added("The request is not valid HTTP.", {
      bad_request: "Host: expected one header, got 2",
    }),
    Unauthorized: added(
      "There is no live token in the request.",
      {
        missing_token: 'Authorization: expected "Bearer <ACCESS_TOKEN>", got nothing',
        invalid_token:
          "Authorization: expected a live token, got one that is unknown, expired or revoked",
      },
      "WWW-Authenticate",
    ),
    Forbidden: added(
      "The token lacks the scope that is needed.",
      {
        insufficient_scope:
          'Authorization: expected a token with the scope "read", got one with "write"',
      },
      "WWW-Authenticate",
    ),
    TooSlow: added("The request came too slowly.", {
      request_timeout: "request: expected all of it sooner",
    }),
    TooLarge: added("The body is too long.", {
      body_too_large: "body: expected at most 1048576 bytes, got more",
    }),
    UnsupportedMediaType: added(
      "The body is not JSON in UTF-8, or it is compressed.",
      {
        unsupported_media_type: "Content-Type: expected application/json in UTF-8, got nothing",
        unsupported_encoding: "Content-Encoding: expected identity or nothing, got another coding",
      },
      "Accept",
      "Accept-Encoding",
    ),
    ExpectationFailed: added("Something else than 100-continue is expected.", {
      expectation_failed: "Expect: expected 100-continue or nothing",
    }),
    HeadersTooLarge: added("Request line and headers are too long.", {
      header_too_large: "headers: expected fewer bytes of them",
    }),
    Internal: added("A defect of the server.", {
      internal: "the server met a fault of its own; its operator finds the reason in the log",
    }),
    TokensUnreadable: added("Send the request again, later.", TOKENS_UNREADABLE, "Retry-After"),
    Unavailable: added("Send the request again, later.", UNAVAILABLE, "Retry-After"),
    CreateUnavailable: added(
      "Send the identical request again, later; without a `Retry-After`, only the operator can help. The outcome is unknown after `write_failed` and `store_failed`; nothing was stored after the others.",
      {
        ...UNAVAILABLE,
        write_failed:
          "Cannot store it now: no space left on device (ENOSPC); the outcome is unknown: send the identical request again",
        not_stored:
          "Cannot store it: the log is full (it has reached its greatest length or number of plants); nothing was stored, and no retry will succeed",
      },
      "Retry-After",
    ),
  },
};

type SharedResponse = keyof (typeof COMPONENTS)["responses"];

/** What HEAD is answered: what GET is, without the bodies. */
function headResponses(responses: Readonly<Record<string, object>>) {
  return Object.fromEntries(
    Object.entries(responses).map(([status, response]) => {
      const name = "$ref" in response ? String(response.$ref).replace(/.*\//, "") : undefined;
      const whole: { readonly content?: unknown } =
        name === undefined ? response : COMPONENTS.responses[name as SharedResponse];
      const { content: _, ...head } = whole;
      return [status, head];
    }),
  );
}

/** Any request may be answered so. */
const ALWAYS = {
  401: ref("responses", "Unauthorized"),
  408: ref("responses", "TooSlow"),
  431: ref("responses", "HeadersTooLarge"),
  500: ref("responses", "Internal"),
  503: ref("responses", "TokensUnreadable"), // an operation has more of them
};

/** And so, where it is a request for an operation. */
const OF_OPERATIONS = {
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
      bad_request: "Host: expected one header, got 2",
      invalid_utf8: "expected text in UTF-8, got other bytes",
      invalid_json: "malformed JSON: expected a member name at its byte 2, got the end of the text",
      duplicate_member: "id: expected once, given 2 times",
      invalid_plant: 'id: expected an int64, got the string "7"; name: required',
      conflict: "Cannot create plant 7: the id belongs to a plant with another name or tag",
    }),
    413: ref("responses", "TooLarge"),
    415: ref("responses", "UnsupportedMediaType"),
    ...OF_OPERATIONS,
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
      bad_request: "Host: expected one header, got 2",
      invalid_query: 'limit: expected one whole number from 1 to 1000, got "x"',
      unknown_cursor: "after: expected the id of a plant, got 9",
    }),
    ...OF_OPERATIONS,
  },
};

const NOT_FOUND: Failures = { not_found: "path: expected /plants or /plants/{id}" };

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
      unknown_plant: "id: there is no plant 9",
    }),
    ...OF_OPERATIONS,
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
      { method_not_allowed: "method: expected one of GET, HEAD, POST, got OPTIONS" },
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
