/**
 * From a request to its operation: the order of checks, the paths, and CORS.
 *
 * A preflight if CORS is on, 401, 404, 405, 403, 417, 415, 413, 503 without memory, 400, the failures of the
 * store: clients and tests need one order (docs/api.md). Before the token is accepted, responses reveal nothing
 * about paths, and no body is read.
 */
import type { RequestListener } from "node:http";
import { types } from "node:util";
import type { RequestMessage } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { parseCanonicalInt64 } from "../core/json.ts";
import { assertNumbers, checkBasePath, checkOrigins, NUMBER_OPTIONS } from "../core/options.ts";
import type { PlantService, TokenVerifier, TrustedProxies, Verdict } from "../core/services.ts";
import { quote } from "../core/text.ts";
import { Budget } from "./budget.ts";
import { create } from "./create.ts";
import { Exchange } from "./exchange.ts";
import { invalidToken, readBearer } from "./head.ts";
import { holdBody } from "./node-internals.ts";
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
  return (req, res) => listener.handle(new Exchange(req, res, listener));
}

/** The operations of a path, by their methods. */
type Operations = ReadonlyMap<string, NonNullable<RequestMessage["operation"]>>;
const [CREATE, LIST, GET] = ["createPlant", "listPlants", "getPlant"] as const;
/** @internal */
export const PLANTS: Operations = new Map(Object.entries({ GET: LIST, HEAD: LIST, POST: CREATE }));
/** @internal */
export const PLANT: Operations = new Map(Object.entries({ GET, HEAD: GET }));

/** @internal */
export class Listener {
  readonly tokens: TokenVerifier;
  readonly budget: Budget;
  readonly trusted: TrustedProxies | undefined;
  readonly #plants: PlantService;
  readonly #reads: Reads;
  readonly #bodyBytesMax: number;
  readonly #plantsPath: string;
  readonly #origins: ReadonlySet<string>;

  constructor(options: ListenerOptions) {
    assertPort("plants", options?.plants, "create");
    assertPort("tokens", options.tokens, "verify");
    assertNumbers(options);
    this.tokens = options.tokens;
    this.budget = new Budget(options.pendingBytesMax);
    this.#plants = options.plants;
    this.#reads = new Reads(options.plants);
    this.#bodyBytesMax = options.bodyBytesMax ?? NUMBER_OPTIONS.bodyBytesMax.default;
    this.#plantsPath = `${checkBasePath(options.basePath ?? "")}/plants`;
    this.#origins = checkOrigins(options.corsOrigins ?? []);
    this.trusted = options.trustedProxies;
  }

  /** Carries a request out, or responds with the error of its framing and closes. Never throws. */
  handle(exchange: Exchange, framingError?: PlantStoreError): void {
    const { req, res } = exchange;
    if (res.headersSent) return; // by other code of the server around this listener
    const { upgrade, connection = "" } = req.headers;
    if (framingError || (upgrade && UPGRADE.test(connection))) exchange.closeAfter();
    try {
      const isPreflight = this.#origins.size > 0 && this.#allowOrigin(exchange);
      if (framingError !== undefined) throw framingError;
      if (isPreflight) return void exchange.respond(204, "");
      exchange.token = readBearer(req);
      const verdict = this.tokens.verify(exchange.token);
      if (types.isPromise(verdict)) {
        holdBody(req, verdict);
        const carryOut = (caller: Verdict) => this.#carryOut(exchange, caller);
        verdict.then(carryOut).catch((error) => exchange.fail(error));
      } else this.#carryOut(exchange, verdict);
    } catch (error) {
      exchange.fail(error);
    }
  }

  /**
   * Lets pages of an allowed origin read the response, for any path, so that they can read a 404.
   *
   * @returns whether the request is a preflight, which allows any header: tools for tracing add their own.
   */
  #allowOrigin({ req, headers }: Exchange): boolean {
    const allowed = this.#origins.has("*") ? "*" : (req.headers.origin ?? "");
    if (!this.#origins.has(allowed)) return false;
    headers.push("Access-Control-Allow-Origin", allowed, "Access-Control-Expose-Headers", EXPOSED);
    const { "access-control-request-headers": asked = "" } = req.headers;
    if (req.method !== "OPTIONS" || !("access-control-request-method" in req.headers)) return false;
    headers.push("Access-Control-Allow-Methods", [...PLANTS.keys()].join(", "));
    const names = ASKED.test(asked) ? asked : "authorization, content-type";
    headers.push("Access-Control-Allow-Headers", names, "Access-Control-Max-Age", "7200");
    return true;
  }

  /** Throws for a faulty head before it returns, so no later request of the connection is carried out first. */
  #carryOut(exchange: Exchange, caller: Verdict): void {
    const { req } = exchange;
    if (exchange.res.headersSent || exchange.isOver) return; // while the token was verified
    if (!caller) throw invalidToken();
    if (!Array.isArray(caller.scopes)) throw new TypeError("verify: expected { name, scopes }");
    exchange.caller = caller;
    const id = this.#findOperation(exchange, caller.scopes);
    const { expect, "transfer-encoding": coding, "content-length": length = 0 } = req.headers;
    if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
      throw new PlantStoreError("expectation_failed", "Expect: expected 100-continue or nothing");
    }
    if (exchange.operation === CREATE) create(exchange, this.#plants, this.#bodyBytesMax);
    else if (coding !== undefined || Number(length) > 0) {
      exchange.closeAfter();
      throw new PlantStoreError("bad_request", "body: expected none in a read, got one");
    } else {
      const reading = id === undefined ? this.#reads.list(exchange) : this.#reads.get(exchange, id);
      exchange.work = reading.catch((error) => exchange.fail(error));
    }
  }

  /**
   * Paths are compared exactly: no decoding, no trailing slash, the query ignored, ids in canonical form.
   *
   * @returns the id in the path.
   * @throws PlantStoreError `not_found`, `method_not_allowed` or `insufficient_scope`.
   */
  #findOperation(exchange: Exchange, scopes: readonly string[]): bigint | undefined {
    const { req, path, headers } = exchange;
    const { method = "" } = req;
    const prefix = `${this.#plantsPath}/`;
    const id = path.startsWith(prefix) ? parseCanonicalInt64(path.slice(prefix.length)) : undefined;
    if (id === undefined && path !== this.#plantsPath) {
      const known = `${this.#plantsPath} or ${prefix}{id}, an int64 without leading zeros`;
      const message = `path: expected exactly ${known}, got ${quote(path)}`;
      throw new PlantStoreError("not_found", message);
    }
    const operations = id === undefined ? PLANTS : PLANT;
    exchange.operation = operations.get(method);
    if (exchange.operation === undefined) {
      const methods = [...operations.keys()].join(", ");
      headers.push("Allow", methods);
      const message = `method: expected one of ${methods}, got ${method}`;
      throw new PlantStoreError("method_not_allowed", message);
    }
    const scope = exchange.operation === CREATE ? "write" : "read";
    if (scopes.includes(scope)) return id;
    const challenge = `Bearer realm="plant-store", error="insufficient_scope", scope="${scope}"`;
    headers.push("WWW-Authenticate", challenge);
    const message = `Authorization: expected a token with the scope "${scope}", got "${scopes.join(" ")}"`;
    throw new PlantStoreError("insufficient_scope", message);
  }
}

/** Finds the mistakes that types do not find in JavaScript. @throws TypeError. */
function assertPort(name: string, port: object, method: string): void {
  if (typeof (port as Record<string, unknown> | undefined)?.[method] === "function") return;
  const got = types.isPromise(port) ? "a promise, which has to be awaited" : typeof port;
  throw new TypeError(`${name}: expected an object with ${method}(), got ${got}`);
}

/** Java's client offers h2c by default, and Node's parser drops what follows such a request: so it is the last. */
const UPGRADE = /upgrade/i;
/** Headers that a page may read, in addition to those of the Fetch standard. */
const EXPOSED = "Link, Retry-After, WWW-Authenticate, X-Request-Id";
/** Names of headers that a page asks for (RFC 9110 section 5.6.2); a longer list is that of no page. */
const ASKED = /^[!#$%&'*+.^_`|~0-9A-Za-z, \t-]{1,1024}$/;
