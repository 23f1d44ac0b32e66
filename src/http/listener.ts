/**
 * From a request to its operation: the order of checks, the paths, and CORS.
 *
 * A preflight if CORS is on, 401, 404, 405, 403, 417, 415, 413, 503 without memory, 400, the failures of the
 * store: clients and tests need one order (docs/api.md). Before the token is accepted, responses reveal nothing
 * about paths, and no body is read. The listener can be mounted in any `node:http` server, which then responds
 * to what its HTTP parser refuses (in ours, http/connections does).
 */

import type { IncomingMessage, RequestListener } from "node:http";
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
import { Creates } from "./create.ts";
import { Exchange, pathOf, ReplyError } from "./exchange.ts";
import {
  announcesBody,
  checkExpectation,
  clientOf,
  HEADER_WORD,
  invalidToken,
  readBearer,
} from "./head.ts";
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
    void listener.handle(new Exchange(req, res, listener.budget));
  };
}

/** As `joinDuplicateHeaders` does it in our own server. By default Node keeps the first. */
function joinDuplicates({ headers, rawHeaders }: IncomingMessage): void {
  for (const name of ["authorization", "content-type"]) {
    const isOne = (_: string, at: number) => rawHeaders[at - 1]?.toLowerCase() === name;
    const values = rawHeaders.filter((value, at) => at % 2 === 1 && isOne(value, at));
    if (values.length > 1) headers[name] = values.join(", ");
  }
}

interface Operation {
  /** The `operationId` in the OpenAPI document. */
  readonly name: "createPlant" | "listPlants" | "getPlant";
  /** The scope that the token must have. */
  readonly scope: Scope;
}

const CREATE_PLANT: Operation = { name: "createPlant", scope: "write" };
const LIST_PLANTS: Operation = { name: "listPlants", scope: "read" };
const GET_PLANT: Operation = { name: "getPlant", scope: "read" };

/** The operations of a path, by their methods. @internal */
export type Operations = ReadonlyMap<string, Operation>;
/** @internal */
export const PLANTS: Operations = new Map([
  ["GET", LIST_PLANTS],
  ["HEAD", LIST_PLANTS],
  ["POST", CREATE_PLANT],
]);
/** @internal */
export const PLANT: Operations = new Map([
  ["GET", GET_PLANT],
  ["HEAD", GET_PLANT],
]);

/** @internal */
export class Listener {
  readonly budget: Budget;
  readonly #tokens: TokenVerifier;
  readonly #creates: Creates;
  readonly #reads: Reads;
  readonly #plantsPath: string;
  readonly #origins: ReadonlySet<string>;
  readonly #trusted: TrustedProxies | undefined;

  constructor(options: ListenerOptions) {
    assertPorts(options);
    assertNumbers(options);
    const { plants, tokens, bodyBytesMax = NUMBER_OPTIONS.bodyBytesMax.default } = options;
    this.budget = new Budget(options.pendingBytesMax);
    this.#tokens = tokens;
    this.#creates = new Creates(plants, tokens, bodyBytesMax);
    this.#reads = new Reads(plants, tokens);
    this.#plantsPath = `${checkBasePath(options.basePath ?? "")}/plants`;
    this.#origins = checkOrigins(options.corsOrigins ?? []);
    this.#trusted = options.trustedProxies;
  }

  /** The origin of the pages that may read a response, if that is the same for all requests. */
  get onlyOrigin(): string | undefined {
    const [origin] = this.#origins;
    return this.#origins.size === 1 ? origin : undefined;
  }

  /** Responds with an error of the framing, and closes. */
  refuse(exchange: Exchange, error: unknown): void {
    this.#receive(exchange);
    exchange.closeAfter();
    exchange.fail(error);
  }

  /** Carries a request out; `sendContinue` is called before its body is read. Never rejects. */
  async handle(exchange: Exchange, sendContinue?: () => void): Promise<void> {
    if (exchange.isResponded) return; // by other code of the server around this listener
    const { req } = exchange;
    try {
      this.#receive(exchange);
      if (this.#isPreflight(req)) return exchange.respond(preflightReply(req));
      const token = readBearer(req);
      const verdict = this.#tokens.verify(token);
      if (!isWaiting(verdict)) {
        await this.#carryOut(exchange, verdict, token, sendContinue); // nearly always
        return;
      }
      const body = announcesBody(req) ? this.#creates.holdBody(exchange) : undefined;
      const caller = await verdict;
      if (exchange.isResponded || exchange.isOver) return;
      await this.#carryOut(exchange, caller, token, sendContinue, body);
    } catch (error) {
      exchange.fail(error);
    }
  }

  /** What every response depends on. */
  #receive(exchange: Exchange): void {
    const { req, res } = exchange;
    if (requests.hasSubscribers) exchange.client = clientOf(req, this.#trusted);
    const { upgrade, connection = "", origin = "" } = req.headers;
    // Node's parser loses what follows an offer of another protocol, which Java's client makes by default.
    if (upgrade !== undefined && /upgrade/i.test(connection)) exchange.closeAfter();
    if (!this.#allows(origin)) return;
    res.setHeader("Access-Control-Allow-Origin", this.#origins.has(ANY_ORIGIN) ? "*" : origin);
    res.setHeader("Access-Control-Expose-Headers", EXPOSED);
  }

  /** @throws what is wrong with the head, in the turn of the call: nothing that follows is carried out before. */
  #carryOut(
    exchange: Exchange,
    caller: Verdict,
    token: string,
    sendContinue?: () => void,
    body?: ReturnType<Creates["holdBody"]>,
  ): Promise<void> {
    const { req } = exchange;
    if (!caller) throw invalidToken();
    assertCaller(caller);
    exchange.caller = caller;
    const { operations, id } = this.#findRoute(req);
    const operation = findOperation(operations, req.method ?? "");
    exchange.operation = operation.name;
    checkScope(operation, caller);
    checkExpectation(req);
    if (operation === CREATE_PLANT)
      return this.#creates.create(exchange, token, sendContinue, body);
    if (announcesBody(req)) {
      exchange.closeAfter();
      throw new PlantStoreError("bad_request", "body: expected none in a read, got one");
    }
    if (id === undefined) return this.#reads.list(exchange, token);
    return this.#reads.get(exchange, id);
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
    const known = `${this.#plantsPath} or ${prefix}{id}`;
    const { originalUrl = req.url } = req as { originalUrl?: string };
    const why = originalUrl === req.url ? "" : `; the program around has cut it: ${MOUNTING}`;
    const message = `path: expected exactly ${known}, with an int64 as the id, without leading zeros`;
    throw new PlantStoreError("not_found", message + why);
  }

  #allows(origin: string): boolean {
    return this.#origins.size > 0 && (this.#origins.has(ANY_ORIGIN) || this.#origins.has(origin));
  }

  /** Whether a browser asks before a page of an allowed origin sends a request. */
  #isPreflight({ method, headers }: IncomingMessage): boolean {
    const { origin, "access-control-request-method": wanted } = headers;
    const isOfPage = method === "OPTIONS" && wanted !== undefined && origin !== undefined;
    return isOfPage && this.#allows(origin);
  }
}

const MOUNTING = 'mount the listener with app.use(listener) and the option "basePath"';

/** Of the two mistakes that types do not find in JavaScript. @throws TypeError. */
function assertPorts({ plants, tokens }: Partial<ListenerOptions> = {}): void {
  if (typeof plants?.create !== "function") {
    const got = plants instanceof Promise ? "a Promise; await PlantStore.open()" : typeof plants;
    throw new TypeError(`plants: expected a store, got ${got}`);
  }
  if (typeof tokens?.verify === "function") return;
  const got = tokens instanceof Promise ? "a Promise; await TokenRegistry.open()" : typeof tokens;
  throw new TypeError(`tokens: expected an object with verify(token), got ${got}`);
}

function isWaiting(verdict: ReturnType<TokenVerifier["verify"]>): verdict is Promise<Verdict> {
  return typeof (verdict as Partial<Promise<Verdict>> | undefined | null)?.then === "function";
}

/** @throws TypeError for a `verify` that does not say whose token it is. */
function assertCaller(caller: VerifiedToken): void {
  if (typeof caller.name === "string" && Array.isArray(caller.scopes)) return;
  throw new TypeError("verify: expected { name, scopes } of an accepted token, got another value");
}

/** @throws ReplyError `method_not_allowed`. */
function findOperation(operations: Operations, method: string): Operation {
  const operation = operations.get(method);
  if (operation !== undefined) return operation;
  const methods = [...operations.keys()].join(", ");
  const message = `method: expected one of ${methods}, got ${method}`;
  throw new ReplyError("method_not_allowed", message, ["Allow", methods]);
}

/** @throws ReplyError `insufficient_scope`. */
function checkScope({ scope }: Operation, { scopes }: VerifiedToken): void {
  if (scopes.includes(scope)) return;
  const challenge = `Bearer realm="plant-store", error="insufficient_scope", scope="${scope}"`;
  const message = `Authorization: expected a token with the scope "${scope}", got one with "${scopes.join(" ")}"`;
  throw new ReplyError("insufficient_scope", message, ["WWW-Authenticate", challenge]);
}

/** Headers that a page may read, in addition to those of the Fetch standard. */
const EXPOSED = "Link, Retry-After, WWW-Authenticate, X-Request-Id";
/** Headers that a page may send without asking for them. */
const ALLOWED = ["authorization", "content-type", "x-request-id"];
const HEADER_NAME = new RegExp(`^${HEADER_WORD}$`);
/** A list that is longer than any of a page allows nothing more. */
const ASKED_CHARACTERS_MAX = 1024;

/** For any path, so that a page can read a 404, and any header: tools for tracing add their own. */
function preflightReply({ headers }: IncomingMessage) {
  const { "access-control-request-headers": list = "" } = headers;
  const asked = list.length > ASKED_CHARACTERS_MAX ? [] : list.toLowerCase().split(/[ \t]*,[ \t]*/);
  const allowed = new Set([...ALLOWED, ...asked.filter((name) => HEADER_NAME.test(name))]);
  const names = [...allowed].join(", ");
  return {
    status: 204,
    body: "",
    headers: [
      ...["Access-Control-Allow-Methods", [...PLANTS.keys()].join(", ")],
      ...["Access-Control-Allow-Headers", names],
      ...["Access-Control-Max-Age", "7200"],
    ],
  };
}
