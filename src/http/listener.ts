/**
 * From a request to its operation: the order of checks, the paths, and CORS.
 *
 * A preflight if CORS is on, 401, 404, 405, 403, 417, 415, 413, 503 without memory, 400, the failures of the
 * store: clients and tests need one order (docs/api.md). Before the token is accepted, responses reveal nothing
 * about paths, and no body is read. The listener can be mounted in any `node:http` server, which then responds
 * to what its HTTP parser refuses (in ours, http/connections does).
 */

import type { IncomingMessage, RequestListener } from "node:http";
import { types } from "node:util";
import { requests } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { parseCanonicalInt64 } from "../core/json.ts";
import {
  ANY_ORIGIN,
  assertNumbers,
  checkBasePath,
  checkOrigins,
  NUMBER_OPTIONS,
} from "../core/options.ts";
import type {
  PlantService,
  Scope,
  TokenVerifier,
  TrustedProxies,
  Verdict,
  VerifiedToken,
} from "../core/services.ts";
import { Budget } from "./budget.ts";
import { Body, Creates } from "./create.ts";
import { Exchange, pathOf, type Reply } from "./exchange.ts";
import { announcesBody, checkExpectation, clientOf, invalidToken, readBearer } from "./head.ts";
import { Reads } from "./reads.ts";

export interface ListenerOptions {
  /** The store of the plants; the caller closes it. */
  readonly plants: PlantService;
  /** The check of bearer tokens; the caller closes it. */
  readonly tokens: TokenVerifier;
  /** The path before `/plants`, such as `/garden`. Default: empty. */
  readonly basePath?: string | undefined;
  /** A longer body gets 413. Default: 1 MiB. */
  readonly bodyBytesMax?: number | undefined;
  /**
   * Bytes that requests hold together, each until the system has its response: a create 8 KiB and three times its
   * body, a read what its plants take. Without room for more a request gets 503; one token gets half at most.
   * Default: a quarter of the memory that is left, from 16 to 256 MiB.
   */
  readonly pendingBytesMax?: number | undefined;
  /** The origins whose pages may use the service, such as `https://app.example`, or `*`. Default: none. */
  readonly corsOrigins?: readonly string[] | undefined;
  /**
   * The proxies whose `X-Forwarded-For` names the client in `RequestMessage`, such as a `BlockList` of
   * `node:net`. Default: none.
   */
  readonly trustedProxies?: TrustedProxies | undefined;
}

/**
 * A request listener for any `node:http` server, whose parser checks the framing of requests.
 *
 * @throws TypeError or RangeError for an option of another type or out of its range (`NUMBER_OPTIONS`).
 */
export function createRequestListener(options: ListenerOptions): RequestListener {
  const listener = new Listener(options);
  // Frameworks pass a third argument of their own, which must not arrive as sendContinue.
  return (req, res) => {
    joinDuplicates(req);
    listener.handle(new Exchange(req, res, listener.budget));
  };
}

/** As `joinDuplicateHeaders` does it in our own server. By default Node keeps the first. */
function joinDuplicates({ headers, rawHeaders }: IncomingMessage): void {
  for (const name of ["authorization", "content-type"]) {
    const isOne = (at: number) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name;
    const values = rawHeaders.filter((_, at) => isOne(at));
    if (values.length > 1) headers[name] = values.join(", ");
  }
}

interface Operation {
  /** The `operationId` in the OpenAPI document. */
  readonly name: "createPlant" | "listPlants" | "getPlant";
  readonly scope: Scope;
}

const CREATE: Operation = { name: "createPlant", scope: "write" };
const LIST: Operation = { name: "listPlants", scope: "read" };
const GET: Operation = { name: "getPlant", scope: "read" };

/** The operations of a path, by their methods. */
type Operations = ReadonlyMap<string, Operation>;
/** @internal */
export const PLANTS: Operations = new Map(Object.entries({ GET: LIST, HEAD: LIST, POST: CREATE }));
/** @internal */
export const PLANT: Operations = new Map(Object.entries({ GET, HEAD: GET }));

/** @internal */
export class Listener {
  readonly budget: Budget;
  readonly #tokens: TokenVerifier;
  readonly #creates: Creates;
  readonly #reads: Reads;
  readonly #bodyBytesMax: number;
  readonly #plantsPath: string;
  readonly #origins: ReadonlySet<string>;
  readonly #trusted: TrustedProxies | undefined;

  constructor(options: ListenerOptions) {
    assertPort("plants", options?.plants, "create");
    assertPort("tokens", options.tokens, "verify");
    assertNumbers(options);
    const { plants, tokens } = options;
    this.budget = new Budget(options.pendingBytesMax);
    this.#tokens = tokens;
    this.#creates = new Creates(plants, tokens);
    this.#reads = new Reads(plants, tokens);
    this.#bodyBytesMax = options.bodyBytesMax ?? NUMBER_OPTIONS.bodyBytesMax.default;
    this.#plantsPath = `${checkBasePath(options.basePath ?? "")}/plants`;
    this.#origins = checkOrigins(options.corsOrigins ?? []);
    this.#trusted = options.trustedProxies;
  }

  /** The origin of the pages that may read a response, if that is the same for all requests. */
  get onlyOrigin(): string | undefined {
    return this.#origins.size === 1 ? [...this.#origins][0] : undefined;
  }

  /** Responds with an error of the framing, and closes. */
  refuse(exchange: Exchange, error: unknown): void {
    this.#receive(exchange);
    exchange.closeAfter();
    exchange.fail(error);
  }

  /** Carries a request out; `sendContinue` is called before its body is read. Never throws. */
  handle(exchange: Exchange, sendContinue?: () => void): void {
    if (exchange.isResponded) return; // by other code of the server around this listener
    const { req } = exchange;
    try {
      const isAllowed = this.#receive(exchange);
      if (isAllowed && isPreflight(req)) {
        exchange.respond(preflightReply(req));
        return;
      }
      const token = readBearer(req);
      const verdict = this.#tokens.verify(token);
      const body = new Body(exchange, this.#bodyBytesMax);
      const go = (caller: Verdict) => this.#carryOut(exchange, caller, token, body, sendContinue);
      const isHere = !types.isPromise(verdict); // nearly always
      if (isHere) go(verdict);
      else body.holdUntil(verdict).then(go).catch(exchange.fail);
    } catch (error) {
      exchange.fail(error);
    }
  }

  /** What every response depends on. @returns whether pages of the request's origin may use the service. */
  #receive(exchange: Exchange): boolean {
    const { req, res } = exchange;
    if (requests.hasSubscribers) exchange.client = clientOf(req, this.#trusted);
    const { upgrade, connection = "", origin = "" } = req.headers;
    // Node's parser loses what follows an offer of another protocol, which Java's client makes by default.
    if (upgrade !== undefined && /upgrade/i.test(connection)) exchange.closeAfter();
    const allowed = this.#origins.has(ANY_ORIGIN) ? ANY_ORIGIN : origin;
    if (!this.#origins.has(allowed)) return false;
    res.setHeader("Access-Control-Allow-Origin", allowed);
    res.setHeader("Access-Control-Expose-Headers", EXPOSED);
    return true;
  }

  /** @throws what is wrong with the head, in the turn of the call: nothing that follows is carried out before. */
  #carryOut(
    exchange: Exchange,
    caller: Verdict,
    token: string,
    body: Body,
    sendContinue?: () => void,
  ): void {
    const { req } = exchange;
    if (exchange.isResponded || exchange.isOver) return; // while the token was verified
    if (!caller) throw invalidToken();
    if (!Array.isArray(caller.scopes)) throw new TypeError("verify: expected { name, scopes }");
    exchange.caller = caller;
    const { operations, id } = this.#findRoute(req);
    const operation = checkOperation(exchange, operations, caller);
    checkExpectation(req);
    if (operation === CREATE) {
      this.#creates.create(exchange, token, body, sendContinue);
      return;
    }
    if (announcesBody(req)) {
      exchange.closeAfter();
      throw new PlantStoreError("bad_request", "body: expected none in a read, got one");
    }
    const isList = id === undefined;
    const reading = isList ? this.#reads.list(exchange, token) : this.#reads.get(exchange, id);
    reading.catch(exchange.fail);
  }

  /**
   * Paths are compared exactly: no decoding, no trailing slash, the query ignored, ids in canonical form.
   *
   * @throws PlantStoreError `not_found`.
   */
  #findRoute(req: IncomingMessage): { readonly operations: Operations; readonly id?: bigint } {
    const path = pathOf(req.url ?? "");
    if (path === this.#plantsPath) return { operations: PLANTS };
    const prefix = `${this.#plantsPath}/`;
    const id = path.startsWith(prefix) ? parseCanonicalInt64(path.slice(prefix.length)) : undefined;
    if (id !== undefined) return { operations: PLANT, id };
    // Express keeps what it was asked for: after app.use("/plants", listener) the path is "/".
    const isCut = "originalUrl" in req && `${req.originalUrl}`.startsWith(this.#plantsPath);
    const why = isCut ? "; the program around the listener has cut it: use app.use(listener)" : "";
    const known = `${this.#plantsPath} or ${prefix}{id}, an int64 without leading zeros`;
    throw new PlantStoreError("not_found", `path: expected exactly ${known}${why}`);
  }
}

/** Finds the mistakes that types do not find in JavaScript. @throws TypeError. */
function assertPort(name: string, port: object, method: string): void {
  if (typeof (port as Record<string, unknown> | undefined)?.[method] === "function") return;
  const got = types.isPromise(port) ? "a promise, which has to be awaited" : typeof port;
  throw new TypeError(`${name}: expected an object with ${method}(), got ${got}`);
}

/** @throws PlantStoreError `method_not_allowed` or `insufficient_scope`. */
function checkOperation(
  exchange: Exchange,
  operations: Operations,
  { scopes }: VerifiedToken,
): Operation {
  const { method = "" } = exchange.req;
  const operation = operations.get(method);
  if (operation === undefined) {
    const methods = [...operations.keys()].join(", ");
    exchange.res.setHeader("Allow", methods);
    const message = `method: expected one of ${methods}, got ${method}`;
    throw new PlantStoreError("method_not_allowed", message);
  }
  const { name, scope } = operation;
  exchange.operation = name;
  if (scopes.includes(scope)) return operation;
  const challenge = `Bearer realm="plant-store", error="insufficient_scope", scope="${scope}"`;
  exchange.res.setHeader("WWW-Authenticate", challenge);
  const message = `Authorization: expected a token with the scope "${scope}", got "${scopes.join(" ")}"`;
  throw new PlantStoreError("insufficient_scope", message);
}

/** Headers that a page may read, in addition to those of the Fetch standard. */
const EXPOSED = "Link, Retry-After, WWW-Authenticate, X-Request-Id";
/** Headers that a page may send without asking for them. */
const ALLOWED = ["authorization", "content-type", "x-request-id"];
/** RFC 9110 section 5.6.2. */
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
/** A longer list is that of no page, and allows nothing more. */
const ASKED_CHARACTERS_MAX = 1024;

/** Whether a browser asks before a page sends a request. */
function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === "OPTIONS" && headers["access-control-request-method"] !== undefined;
}

/** For any path, so that a page can read a 404, and any header: tools for tracing add their own. */
function preflightReply({ headers }: IncomingMessage): Reply {
  const { "access-control-request-headers": list = "" } = headers;
  const asked = list.length > ASKED_CHARACTERS_MAX ? [] : list.toLowerCase().split(/[ \t]*,[ \t]*/);
  const allowed = new Set([...ALLOWED, ...asked.filter((name) => HEADER_NAME.test(name))]);
  const methods = ["Access-Control-Allow-Methods", [...PLANTS.keys()].join(", ")];
  const names = ["Access-Control-Allow-Headers", [...allowed].join(", ")];
  return {
    status: 204,
    body: "",
    headers: [...methods, ...names, "Access-Control-Max-Age", "7200"],
  };
}
