/**
 * From a request to its operation: the order in which faults are reported, the paths, and CORS.
 *
 * A preflight if CORS is on, 401, 404, 405, 403, 417, 415, 413, 503 without memory, 400, the faults of
 * the store: clients and tests need one order (docs/api.md). Before the token is accepted, answers
 * reveal nothing about paths, and no body is read. The listener can be mounted in any `node:http`
 * server, which then answers what its HTTP parser refuses (in ours, http/connections does).
 */

import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { requests } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { parseCanonicalInt64 } from "../core/json.ts";
import { ANY_ORIGIN, checkBasePath, checkOrigins } from "../core/options.ts";
import type {
  PlantService,
  Scope,
  TokenVerifier,
  TrustedProxies,
  VerifiedToken,
} from "../core/services.ts";
import {
  afterAnswer,
  answer,
  answerFailure,
  answerSocket,
  closeAfter,
  type Exchange,
  errorReply,
  Lingering,
  type Reply,
  scopeChallenge,
} from "./answer.ts";
import { Creates } from "./creates.ts";
import {
  Authenticator,
  announcesBody,
  HEADER_WORD,
  type Head,
  insufficientScope,
  readHead,
  requireExpectation,
} from "./head.ts";
import { holdBody, ignoreFollowing, probe } from "./node-internals.ts";
import { Reads } from "./reads.ts";
import { noteArrival, pathOf } from "./request-message.ts";

export interface ListenerOptions {
  /** The store of the plants; the caller closes it. */
  readonly plants: PlantService;
  /** The check of bearer tokens; the caller closes it. */
  readonly tokens: TokenVerifier;
  /** The path before `/plants`, such as `/garden`. Default: empty. */
  readonly basePath?: string | undefined;
  /** A longer body is answered 413. Default: 1 MiB. */
  readonly bodyBytesMax?: number | undefined;
  /**
   * Bytes that creates hold together: each 1 KiB and three times the announced length of its body, from its
   * first byte until the system has the answer. One token gets more only while it holds no more than what
   * stays free, else 503, unless the body is the only one. Default: 4 to 64 MiB, by the memory there is.
   */
  readonly pendingBytesMax?: number | undefined;
  /**
   * Creates under way at once, shared as `pendingBytesMax` is. Each holds about 8 KiB besides its body; one
   * with a longer head counts as up to four. Default: 1,024 to 16,384, by the memory there is.
   */
  readonly pendingRequestsMax?: number | undefined;
  /**
   * The origins whose pages may use the service from a browser, such as `https://app.example`, or
   * `*` for any. Default: none.
   */
  readonly corsOrigins?: readonly string[] | undefined;
  /**
   * The proxies whose `X-Forwarded-For` names the client in `RequestMessage`, such as a `BlockList` of
   * `node:net`. Default: none.
   */
  readonly trustedProxies?: TrustedProxies | undefined;
}

/**
 * A request listener for any `node:http` server, whose parser judges the framing of requests.
 *
 * @throws RangeError for a number out of its range (`NUMBER_OPTIONS`), or a base path or origin
 * that is none.
 */
export function createRequestListener(options: ListenerOptions): RequestListener {
  const listener = new Listener(options);
  // Frameworks pass a third argument of their own, which must not arrive as sendContinue.
  return (req, res) => listener.handle(req, res, readHead(req));
}

/** @internal */
export class Listener {
  /** `undefined` unless CORS is on. */
  readonly #cors: Cors | undefined;
  readonly lingering: Lingering;
  readonly #authenticator: Authenticator;
  readonly #creates: Creates;
  readonly #reads: Reads;
  readonly #basePath: string;
  readonly #trusted: TrustedProxies | undefined;

  constructor(options: ListenerOptions, lingering = new Lingering()) {
    const { plants, tokens, basePath = "", corsOrigins = [] } = options;
    this.lingering = lingering;
    this.#authenticator = new Authenticator(tokens);
    checkOrigins(corsOrigins);
    this.#cors = corsOrigins.length === 0 ? undefined : new Cors(corsOrigins);
    this.#basePath = checkBasePath(basePath);
    this.#trusted = options.trustedProxies;
    probe();
    this.#creates = new Creates(plants, this.#authenticator, options);
    this.#reads = new Reads(plants, this.#authenticator, this.#creates);
  }

  /** Answers with a fault of the framing, or of the body of a request that has begun, and closes. */
  refuse(req: IncomingMessage, res: ServerResponse, fault: unknown, isBegun = false): void {
    if (res.headersSent) return;
    if (!isBegun) {
      if (requests.hasSubscribers) noteArrival(req, this.#trusted, false);
      this.#cors?.mark(req, res);
    }
    answer({ req, res, lingering: this.lingering }, errorReply(fault), true);
  }

  /** Whose memory a request on a connection takes: the name of the last good token on it. */
  senderOn(socket: IncomingMessage["socket"]): string {
    return this.#authenticator.senderOn(socket);
  }

  /** Answers bytes that never became a request, after the last answer. */
  refuseBytes(socket: IncomingMessage["socket"], fault: unknown, last?: ServerResponse): void {
    const reply = errorReply(fault);
    const headers = { ...reply.headers, ...this.#cors?.headersOfOnlyOrigin };
    afterAnswer(last, () => answerSocket(socket, { ...reply, headers }, this.lingering));
  }

  /** Handles one request; `sendContinue` is called before its body is read. Never throws. */
  handle(req: IncomingMessage, res: ServerResponse, head: Head, sendContinue?: () => void): void {
    if (res.headersSent) return; // by other code of the server around this listener
    const notes = requests.hasSubscribers ? noteArrival(req, this.#trusted) : undefined;
    const { lingering } = this;
    const exchange = { req, res, lingering, notes, sendContinue };
    const { upgrade, connection = "" } = req.headers;
    if (upgrade !== undefined && /upgrade/i.test(connection)) {
      // Node's parser drops the rest of the packet with such an offer, and takes the next one for a
      // request: half of a request could be carried out.
      closeAfter(res);
      ignoreFollowing(req);
    }
    this.#cors?.mark(req, res);
    const isPreflight = isOfPage(req);
    if (isPreflight && this.#cors?.allows(req.headers.origin)) {
      answer(exchange, preflightReply(req));
      return;
    }
    try {
      if (isPreflight && head.authorization === undefined) throw refusedPreflight();
      const sender = this.#authenticator.authenticate(req, head);
      if (sender instanceof Promise && announcesBody(req)) holdBody(req);
      const working =
        sender instanceof Promise
          ? sender.then((verified) => this.#admit(exchange, head, verified))
          : this.#admit(exchange, head, sender);
      working?.catch((error: unknown) => answerFailure(exchange, error));
    } catch (error) {
      answerFailure(exchange, error);
    }
  }

  /** Finds the operation, judges what is common to all operations, and carries it out. */
  #admit(exchange: Exchange, head: Head, sender: VerifiedToken): Promise<void> | undefined {
    const { req, res, notes } = exchange;
    if (res.headersSent) return undefined; // a timeout, while the token was looked up
    if (notes !== undefined) notes.token = sender.name;
    const route = findRoute(req.url ?? "", this.#basePath);
    if (route === undefined) throw notFound(this.#basePath);
    const operation = route.resource.operations.get(req.method ?? "");
    if (operation === undefined) {
      res.setHeader("Allow", methodsOf(route.resource));
      throw methodNotAllowed(route.resource, req.method ?? "");
    }
    if (notes !== undefined) notes.operation = operation.name;
    if (!sender.scopes.includes(operation.scope)) {
      res.setHeader("WWW-Authenticate", scopeChallenge(operation.scope));
      throw insufficientScope(sender, operation.scope);
    }
    requireExpectation(req);
    if (operation.name === "createPlant") {
      this.#creates.create(exchange, head, sender);
      return undefined;
    }
    if (announcesBody(req)) {
      closeAfter(res);
      throw new PlantStoreError("bad_request", "body: expected none in a read, got one");
    }
    if (route.id === undefined) return this.#reads.list(exchange, sender);
    return this.#reads.get(exchange, sender, route.id);
  }
}

// Paths are compared exactly: no decoding, no trailing slash, the query ignored, ids in canonical form
// only. A target may be a path or a URL, `/plants` or `http://host/plants` (RFC 9112 section 3.2).

interface Operation {
  /** The `operationId` in the OpenAPI document. */
  readonly name: "createPlant" | "listPlants" | "getPlant";
  /** The scope that the token must have. */
  readonly scope: Scope;
}

interface Resource {
  /** As in the OpenAPI document. */
  readonly path: string;
  readonly operations: ReadonlyMap<string, Operation>;
}

interface Route {
  readonly resource: Resource;
  readonly id?: bigint;
}

const CREATE_PLANT: Operation = { name: "createPlant", scope: "write" };
const LIST_PLANTS: Operation = { name: "listPlants", scope: "read" };
const GET_PLANT: Operation = { name: "getPlant", scope: "read" };

const PLANTS: Resource = {
  path: "/plants",
  operations: new Map(Object.entries({ GET: LIST_PLANTS, HEAD: LIST_PLANTS, POST: CREATE_PLANT })),
};
const PLANT: Resource = {
  path: "/plants/{id}",
  operations: new Map(Object.entries({ GET: GET_PLANT, HEAD: GET_PLANT })),
};

/** Every path below the base path. @internal */
export const RESOURCES: readonly Resource[] = [PLANTS, PLANT];

/** @internal */
export function findRoute(target: string, basePath: string): Route | undefined {
  const path = pathOf(target);
  if (!path.startsWith(basePath)) return undefined;
  const rest = path.slice(basePath.length);
  if (rest === PLANTS.path) return { resource: PLANTS };
  const prefix = `${PLANTS.path}/`;
  if (!rest.startsWith(prefix)) return undefined;
  const id = parseCanonicalInt64(rest.slice(prefix.length));
  return id === undefined ? undefined : { resource: PLANT, id };
}

function notFound(basePath: string): PlantStoreError {
  const known = RESOURCES.map((resource) => basePath + resource.path).join(" or ");
  const message = `path: expected exactly ${known}, with an int64 as the id, without leading zeros`;
  return new PlantStoreError("not_found", message);
}

/** The value of `Allow`. */
function methodsOf({ operations }: Resource): string {
  return [...operations.keys()].join(", ");
}

function methodNotAllowed(resource: Resource, method: string): PlantStoreError {
  return new PlantStoreError(
    "method_not_allowed",
    `method: expected one of ${methodsOf(resource)}, got ${method}`,
  );
}

/** Headers of answers that a page may read, in addition to those of the Fetch standard. */
const EXPOSED = "Link, Retry-After, WWW-Authenticate, X-Request-Id";
const METHODS = RESOURCES.flatMap(({ operations }) => [...operations.keys()]);

/** Headers that a page may send without asking for them. */
const ALLOWED = ["authorization", "content-type", "x-request-id"];
const HEADER_NAME = new RegExp(`^${HEADER_WORD}$`);
/** A list that is longer than any of a page allows nothing more. */
const ASKED_CHARACTERS_MAX = 1024;

/** Whether a browser asks before a page sends a request. */
function isOfPage({ method, headers }: IncomingMessage): boolean {
  const { origin, "access-control-request-method": wanted } = headers;
  return method === "OPTIONS" && wanted !== undefined && origin !== undefined;
}

/** The log shows it to the operator. */
function refusedPreflight(): PlantStoreError {
  const hint =
    "a browser asks for a page of an origin that --cors-origin (corsOrigins) does not name";
  const message = `Authorization: expected "Bearer <ACCESS_TOKEN>", got nothing; ${hint}`;
  return new PlantStoreError("missing_token", message);
}

/**
 * For any path, so that a page can read a 404. Allows every header that the page asks for: tools for
 * tracing add their own. Chromium remembers it for two hours at most.
 */
function preflightReply({ headers }: IncomingMessage): Reply {
  const { "access-control-request-headers": list = "" } = headers;
  const asked = list.length > ASKED_CHARACTERS_MAX ? [] : list.toLowerCase().split(/[ \t]*,[ \t]*/);
  const allowed = new Set([...ALLOWED, ...asked.filter((name) => HEADER_NAME.test(name))]);
  return {
    status: 204,
    headers: {
      "Access-Control-Allow-Methods": [...new Set(METHODS)].join(", "),
      "Access-Control-Allow-Headers": [...allowed].join(", "),
      "Access-Control-Max-Age": "7200",
    },
    body: "",
  };
}

/**
 * Lets pages of named origins use the service from a browser (the CORS protocol of the Fetch
 * standard). Requests from other pages are answered without CORS headers, so the browser hides the
 * answers from them. Cookies are not used, so `*` is safe. No cache keeps an answer, so none needs `Vary`.
 */
class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** Adds the headers of every answer to this request. */
  mark(req: IncomingMessage, res: ServerResponse): void {
    for (const [name, value] of Object.entries(this.#headersFor(req.headers.origin))) {
      res.setHeader(name, value);
    }
  }

  /** For an answer to bytes that are no request: the origin is known if only one is allowed. */
  get headersOfOnlyOrigin(): Record<string, string> {
    return this.#origins.size === 1 ? this.#headersFor([...this.#origins][0]) : {};
  }

  /** Whether the pages of an origin may use the service. */
  allows(origin: string | undefined): boolean {
    return "Access-Control-Allow-Origin" in this.#headersFor(origin);
  }

  #headersFor(origin = ""): Record<string, string> {
    const isOpen = this.#origins.has(ANY_ORIGIN);
    if (!isOpen && !this.#origins.has(origin)) return {};
    return {
      "Access-Control-Allow-Origin": isOpen ? ANY_ORIGIN : origin,
      "Access-Control-Expose-Headers": EXPOSED,
    };
  }
}
