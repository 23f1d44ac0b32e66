/**
 * The interface as an OpenAPI 3.1.0 document.
 *
 * It holds the owner's interface exactly, and the additions to it: added operations have the tag
 * `additions`, added answers and headers the member `x-addition`. A test compares it with the code.
 */
import { STATUS_CODES } from "node:http";
import type { RequestErrorCode } from "../core/errors.ts";
import { FAILURES } from "./answer.ts";
import { LIMIT_DEFAULT, LIMIT_MAX } from "./reads.ts";

const ADDITION = { "x-addition": true };

function ref(kind: "schemas" | "headers", name: string) {
  return { $ref: `#/components/${kind}/${name}` };
}

function answer(description: string, content: object, ...headers: readonly string[]) {
  const names = ["Cache-Control", "X-Content-Type-Options", "X-Request-Id", ...headers];
  return {
    description,
    headers: Object.fromEntries(names.map((name) => [name, ref("headers", name)])),
    content,
  };
}

/** A JSON body. @param examples by name. */
function json(schema: object, examples: Readonly<Record<string, unknown>>) {
  const named = Object.entries(examples).map(([name, value]) => [name, { value }]);
  return { "application/json": { schema, examples: Object.fromEntries(named) } };
}

/** Examples of messages, by the code of the failure. */
type Messages = Partial<Readonly<Record<RequestErrorCode, string>>>;

/** Failures of any operation. */
const ANY_OPERATION: Messages = {
  bad_request: "Host: expected one valid header, got none, several or another",
  missing_token: 'Authorization: expected "Bearer <ACCESS_TOKEN>", got nothing',
  invalid_token:
    "Authorization: expected a live token, got one that is unknown, expired or revoked",
  request_timeout: "request: expected all of it sooner",
  header_too_large: "headers: expected fewer bytes of them",
  internal: "internal server error; the reason is in the server's log",
  tokens_unreadable:
    "Authorization: cannot verify tokens right now, because the server has not read its token file for 2 s; retry later",
  insufficient_scope: 'Authorization: expected a token with the scope "read", got one with "write"',
  expectation_failed: "Expect: expected 100-continue or nothing",
  overloaded: "Cannot take the request now: too many are under way; send it again later",
  store_failed:
    "Cannot use the store: it has stopped after a failure of its disk or data directory; the outcome of a create is unknown: send the identical request again",
  closed: "Cannot use the store: it is closed",
};

/** For most answers the name of the status, and the examples, say enough. */
const DESCRIPTIONS: Readonly<Record<number, string>> = {
  400: "Unexpected error",
  503: "Send the identical request again later; without a `Retry-After`, only the operator can help. After `write_failed` and `store_failed` the outcome of a create is unknown; after the others nothing was stored.",
};

/** The answers to these failures, by status, with an example for each code. */
function failures(messages: Messages) {
  const all = Object.entries(messages).map(([code, message]) => {
    return { ...FAILURES[code as RequestErrorCode], code, message };
  });
  const answers: Record<number, object> = {};
  for (const { status } of all) {
    const some = all.filter((failure) => failure.status === status);
    const examples = some.map(({ code, error, message }) => [code, { error, message }]);
    const content = json(ref("schemas", "Error"), Object.fromEntries(examples));
    const headers = some.flatMap((failure) => Object.keys(failure.headers));
    if (status === 403) headers.push("WWW-Authenticate"); // depends on the operation
    const description = DESCRIPTIONS[status] ?? STATUS_CODES[status] ?? "";
    const mark = status === 400 ? {} : ADDITION; // only the 400 is the owner's
    answers[status] = { ...mark, ...answer(description, content, ...headers) };
  }
  return answers;
}

function header(description: string, example: string | number) {
  const type = typeof example === "number" ? "integer" : "string";
  return { ...ADDITION, description, schema: { type }, example };
}

function parameter(place: string, name: string, description: string, schema: object) {
  return { name, in: place, required: place === "path", description, schema };
}

const INT64 = { type: "integer", format: "int64" };
const INT32 = { type: "integer", format: "int32" };

const ID = {
  ...INT64,
  description: "Any int64, exactly; JavaScript's `JSON.parse` loses digits beyond 2^53.",
};

const PLANT = {
  name: { type: "string", description: "The name of the plant." },
  tag: { type: "string", description: "The tag that specifies the type of the plant." },
};

const COMPONENTS = {
  securitySchemes: {
    bearerAuth: {
      type: "http",
      scheme: "bearer",
      description: "A token with the scope `write` for the interface, `read` for the additions.",
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
          ...INT32,
          description: "The kind of failure: the status times 100, plus a number. Never changes.",
        },
        message: { type: "string", description: "For people. May change." },
      },
    },
  },
  headers: {
    Accept: header("The media type that the server takes.", "application/json"),
    "Accept-Encoding": header("The content coding that the server takes.", "identity"),
    "Cache-Control": header("Which caches may keep the answer.", "no-store"),
    Link: header("The next page, if more plants follow.", '<?limit=100&after=107>; rel="next"'),
    "Retry-After": header("When to send the request again, in seconds.", 1),
    "WWW-Authenticate": header("The token that is required.", 'Bearer realm="plant-store"'),
    "X-Content-Type-Options": header("Always `nosniff`.", "nosniff"),
    "X-Request-Id": header("The client's id if it is safe, else a new one.", "d293887cb9f4-51"),
  },
};

const PLANTS = { fern: { name: "Fern", tag: "indoor" }, untagged: { name: "Ivy" } };
const NEW_PLANTS = { fern: { id: 7, ...PLANTS.fern }, untagged: { id: 8, ...PLANTS.untagged } };

const CREATE_PLANT = {
  operationId: "createPlant",
  summary: "Create a plant",
  description:
    "Creates a new plant in the store. If the same plant is sent again, the answer is the same and nothing is stored, so a client that lost an answer sends the identical request again.",
  tags: ["interface"],
  security: [{ bearerAuth: ["write"] }],
  requestBody: {
    required: true,
    content: json(ref("schemas", "NewPlant"), NEW_PLANTS),
  },
  responses: {
    200: answer(
      "Plant response: the plant was created, and is on the disk.",
      json(ref("schemas", "Plant"), PLANTS),
    ),
    ...failures({
      invalid_plant: 'id: expected an int64, got the string "7"; name: required', // mocks show the first
      ...ANY_OPERATION,
      invalid_utf8: "expected text in UTF-8, got other bytes",
      invalid_json: "invalid JSON at byte 2: expected a member name, got the end of the text",
      duplicate_member: "id: expected once, given 2 times",
      conflict:
        "Cannot create plant 7: the id belongs to a plant with another name or tag; get that one, or use another id",
      body_too_large: "body: expected at most 1048576 bytes, got more",
      unsupported_media_type: "Content-Type: expected application/json in UTF-8, got none",
      unsupported_encoding: "Content-Encoding: expected identity or nothing, got another coding",
      write_failed:
        "Cannot store it now: no space left on device (ENOSPC); the outcome is unknown: send the identical request again",
    }),
  },
};

/** Failures of any operation that reads. */
const ANY_READ: Messages = {
  ...ANY_OPERATION,
  read_failed:
    "Cannot read the plant or the page now; the reason is in the server's log: send the request again later",
};

const READ = { tags: ["additions"], security: [{ bearerAuth: ["read"] }] };

const PAGE = { type: "array", items: ref("schemas", "NewPlant") };

const LIST_PLANTS = {
  ...READ,
  operationId: "listPlants",
  summary: "List plants in the order of their creation",
  description:
    "A page of at most `limit` plants and about 1 MiB, with a link to the next page; or all plants as a stream, if `Accept` names `application/x-ndjson`.",
  parameters: [
    parameter("query", "limit", "The most plants to send; a stream without it sends all of them.", {
      ...INT32,
      minimum: 1,
      maximum: LIMIT_MAX,
      default: LIMIT_DEFAULT,
    }),
    parameter("query", "after", "Start after the plant with this id.", INT64),
  ],
  responses: {
    200: answer(
      "Plants.",
      {
        ...json(PAGE, { page: Object.values(NEW_PLANTS) }),
        "application/x-ndjson": {
          schema: { type: "string", description: "A NewPlant a line." },
          examples: { lines: { value: `${JSON.stringify(NEW_PLANTS.fern)}\n` } },
        },
      },
      "Link",
    ),
    ...failures({
      ...ANY_READ,
      invalid_query: 'limit: expected one whole number from 1 to 1000, got "x"',
      unknown_cursor: "after: expected the id of a plant, got 9",
    }),
  },
};

const GET_PLANT = {
  ...READ,
  operationId: "getPlant",
  summary: "Get a plant",
  responses: {
    200: answer(
      "The plant, which never changes.",
      json(ref("schemas", "NewPlant"), { fern: NEW_PLANTS.fern }),
    ),
    ...failures({
      ...ANY_READ,
      not_found:
        "path: expected exactly /plants or /plants/{id}, with an int64 as the id, without leading zeros",
      unknown_plant: "id: there is no plant 9",
    }),
  },
};

/** For any OpenAPI tool; its members are those of OpenAPI 3.1.0. */
export const OPENAPI: Readonly<Record<string, unknown>> = {
  openapi: "3.1.0",
  info: {
    title: "OpenAPI Plant Store",
    version: "1.0.0",
    summary: "Keeps plants and never loses one.",
    description:
      "`HEAD` works for every path that has `GET`; other methods are answered 405 with the error 40501. If pages of other origins are let in, preflights are answered, and answers have the headers of the CORS protocol.",
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
    { name: "additions", description: "Not part of the interface, like all marked `x-addition`." },
  ],
  paths: {
    "/plants": { get: LIST_PLANTS, post: CREATE_PLANT },
    "/plants/{id}": {
      parameters: [
        parameter("path", "id", "The id in canonical form: no leading zeros, no `+`.", {
          ...INT64,
          examples: [7],
        }),
      ],
      get: GET_PLANT,
    },
  },
  components: COMPONENTS,
};
