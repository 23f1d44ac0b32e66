/**
 * From a request to its answer: the order in which faults are told.
 *
 * A preflight where CORS is on, 401, 404, 405, 403, 417, 415, 413, 400, 503: a
 * client and a test need one order, and nothing is said about paths, nor a body
 * read, before the token is accepted. Works mounted in anybody's `node:http` server; what the HTTP
 * parser refuses is that server's to answer (see http/server for ours), and so is
 * a request that was answered before it came here. Keeps no state but what is under way.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { publishWarning } from "../core/channels.ts";
import { assertMethods, normalizeBasePath, readNumber } from "../core/options.ts";
import { encodePlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService, TokenVerifier, VerifiedToken } from "../core/services.ts";
import {
  answer,
  answerAndClose,
  answerNobody,
  closeAfter,
  ignoreFollowing,
  Lingering,
} from "./answer.ts";
import { Authenticator, insufficientScope } from "./bearer.ts";
import { BodyCollector, collectStream, requireLength, requireUnread } from "./body.ts";
import { Budget, overloaded, weightOf } from "./budget.ts";
import { Cors } from "./cors.ts";
import { DirectRequest } from "./direct-request.ts";
import { Reads } from "./reads.ts";
import { errorReply, isRequestError, okReply, scopeChallenge } from "./reply.ts";
import { findLengthFault, requireExpectation, requireJson } from "./request-head.ts";
import { noteArrival, noteBody, noteOperation, noteSender } from "./request-message.ts";
import { findPreflighted, findRoute, methodNotAllowed, methodsOf, notFound } from "./router.ts";

export interface ListenerOptions {
  /** Where plants go; it stays the caller's to close. */
  readonly plants: PlantService;
  /** Who may create them; it stays the caller's to close. */
  readonly tokens: TokenVerifier;
  /** What stands before `/plants` in the path, e.g. `/garden`. Default: nothing. */
  readonly basePath?: string;
  /** A longer body is answered 413. Default: 1 MiB. */
  readonly bodyBytesMax?: number;
  /**
   * More bytes of bodies than this are never held at once, counted until their
   * requests are answered; beyond it 503. Default: 64 MiB.
   */
  readonly pendingBytesMax?: number;
  /**
   * More requests than this are never under way at once; beyond it 503. Each holds about 8 KiB
   * besides its body; one with a longer head counts as up to four. Default: 16,384.
   */
  readonly pendingRequestsMax?: number;
  /**
   * Answers to reads, streams among them, never hold more bytes than this
   * together while they wait to be sent, but for one alone; beyond it 503. Default: 32 MiB.
   */
  readonly readBytesMax?: number;
  /**
   * The origins whose pages may use the service from a browser, such as
   * `https://app.example`, or `*` for any. Default: none.
   */
  readonly corsOrigins?: readonly string[];
}

/**
 * Handles one request; `sendContinue` is called before the body is read. Never throws.
 * @internal
 */
export type Handler = (
  req: IncomingMessage,
  res: ServerResponse,
  sendContinue?: () => void,
) => void;

/**
 * A request listener for any `node:http` server.
 *
 * @throws TypeError or RangeError for an option of the wrong type or out of
 * its range (`NUMBER_OPTIONS`), or a base path that is none.
 */
export function createRequestListener(options: ListenerOptions): RequestListener {
  const listener = new Listener(options);
  // Frameworks pass a third argument of their own, which must not arrive as sendContinue.
  return (req, res) => listener.handleMounted({ req, res, sendContinue: undefined });
}

/**
 * The same for our own server, which says 100 Continue itself and may have direct requests.
 * @internal
 */
export function createHandler(options: ListenerOptions, lingering?: Lingering): Handler {
  const listener = new Listener(options, lingering);
  return (req, res, sendContinue) => listener.handle({ req, res, sendContinue });
}

/** One request on its way to its answer. */
interface Exchange {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly sendContinue: (() => void) | undefined;
}

/**
 * Whether a request offers another protocol. Node's parser stops behind one, drops what came with
 * it, and takes what comes next for a request: half of one could be carried out. So nothing that
 * follows on that connection is carried out, be the listener mounted or in our own server
 * (http/connections), and this comes first.
 */
function isOffer({ headers: { upgrade, connection } }: IncomingMessage): boolean {
  return upgrade !== undefined && /upgrade/i.test(connection ?? "");
}

class Listener {
  readonly #plants: PlantService;
  readonly #reads: Reads;
  readonly #authenticator: Authenticator;
  readonly #cors: Cors | undefined;
  readonly #basePath: string;
  readonly #bodyBytesMax: number;
  readonly #requests: Budget;
  readonly #bodies: Budget;
  /** So far. */
  #creates = 0;
  readonly #lingering: Lingering;

  constructor(options: ListenerOptions, lingering = new Lingering()) {
    const { plants, tokens, basePath = "" } = options;
    assertMethods("plants", plants, ["create", "get", "list"], ["listLines"]);
    assertMethods("tokens", tokens, ["verify"], ["isCurrent"]);
    this.#plants = plants;
    this.#authenticator = new Authenticator(tokens);
    this.#cors = Cors.of(options.corsOrigins);
    this.#basePath = normalizeBasePath(basePath);
    this.#bodyBytesMax = readNumber(options, "bodyBytesMax");
    this.#requests = new Budget(readNumber(options, "pendingRequestsMax"));
    this.#bodies = new Budget(readNumber(options, "pendingBytesMax"));
    this.#lingering = lingering;
    this.#reads = new Reads(plants, readNumber(options, "readBytesMax"), () => this.#creates);
  }

  /** In somebody else's server: http/connections judges the framing in ours. */
  handleMounted(exchange: Exchange): void {
    const { req, res } = exchange;
    const fault = findLengthFault(req);
    if (fault === undefined) {
      if (isOffer(req)) ignoreFollowing(req);
      this.handle(exchange);
      return;
    }
    noteArrival(req);
    this.#cors?.mark(req, res);
    answerAndClose(req, res, errorReply(fault), this.#lingering);
  }

  handle(exchange: Exchange): void {
    if (exchange.res.headersSent) return;
    noteArrival(exchange.req);
    if (isOffer(exchange.req)) closeAfter(exchange.res);
    if (this.#cors !== undefined && this.#isPreflight(exchange, this.#cors)) return;
    try {
      const sender = this.#authenticator.authenticate(exchange.req);
      if (!(sender instanceof Promise)) this.#admit(exchange, sender);
      else {
        sender
          .then((verified) => this.#admit(exchange, verified))
          .catch((error: unknown) => this.#fail(exchange, error));
      }
    } catch (error) {
      this.#fail(exchange, error);
    }
  }

  /** Marks what will be answered for the browser; whether it was answered already. */
  #isPreflight({ req, res }: Exchange, cors: Cors): boolean {
    cors.mark(req, res);
    const resource = findPreflighted(req.url ?? "", this.#basePath);
    const reply = resource && cors.preflight(req, resource);
    if (reply === undefined) return false;
    answer(req, res, reply, this.#lingering);
    return true;
  }

  /** Everything that is judged before a body is. */
  #admit(exchange: Exchange, sender: VerifiedToken): void {
    const { req, res } = exchange;
    if (res.headersSent) return; // while the token was looked up
    noteSender(req, sender);
    const route = findRoute(req.url ?? "", this.#basePath);
    if (route === undefined) throw notFound(this.#basePath);
    const operation = route.resource.operations.get(req.method ?? "");
    if (operation === undefined) {
      res.setHeader("Allow", methodsOf(route.resource));
      throw methodNotAllowed(route.resource, req.method ?? "");
    }
    noteOperation(req, operation);
    if (!sender.scopes.includes(operation.scope)) {
      res.setHeader("WWW-Authenticate", scopeChallenge(operation.scope));
      throw insufficientScope(sender, operation.scope);
    }
    requireExpectation(req);
    if (operation.name === "createPlant") this.#admitCreate(exchange, sender);
    else {
      const requireCurrent = () => this.#authenticator.requireCurrent(sender);
      const read = { req, res, requireCurrent, lingering: this.#lingering };
      const reading =
        route.id === undefined ? this.#reads.list(read) : this.#reads.get(read, route.id);
      reading.catch((error) => this.#fail(exchange, error));
    }
  }

  #admitCreate(exchange: Exchange, sender: VerifiedToken): void {
    const { req } = exchange;
    requireJson(req);
    requireLength(req.headers, this.#bodyBytesMax);
    requireUnread(req);
    this.#receive(exchange, sender);
  }

  #receive(exchange: Exchange, sender: VerifiedToken): void {
    const { req, res, sendContinue } = exchange;
    const weight = weightOf(req);
    if (!this.#requests.take(weight, 0)) throw overloaded();
    this.#creates++;
    const collector = new BodyCollector(this.#bodyBytesMax, this.#bodies, (body, failure) => {
      // Whoever was told that the request failed, as one that took too long is, was told the truth.
      if (body !== undefined && !res.headersSent) {
        this.#take(exchange, sender, body, weight);
        return;
      }
      this.#leave(weight, body?.length);
      if (failure !== undefined) this.#fail(exchange, failure);
      else answerNobody(req, res);
    });
    sendContinue?.();
    if (req instanceof DirectRequest) req.collect(collector);
    else collectStream(req, collector);
  }

  /** Not in `#create`: an async function would hold the body until the plant is durable. */
  #take(exchange: Exchange, sender: VerifiedToken, body: Buffer, weight: number): void {
    noteBody(exchange.req, body.length);
    try {
      this.#authenticator.requireCurrent(sender); // the body may have come long after the head
      void this.#create(exchange, parseNewPlant(body), body.length, weight);
    } catch (error) {
      this.#leave(weight, body.length);
      this.#fail(exchange, error);
    }
  }

  /** Answers once the plant is durable; a repeat of one that is gets the same answer. */
  async #create(
    exchange: Exchange,
    plant: NewPlant,
    bodyBytes: number,
    weight: number,
  ): Promise<void> {
    try {
      await this.#plants.create(plant);
      answer(exchange.req, exchange.res, okReply(encodePlant(plant)), this.#lingering);
    } catch (error) {
      this.#fail(exchange, error);
    } finally {
      this.#leave(weight, bodyBytes);
    }
  }

  /** Gives back what a create has borrowed. */
  #leave(weight: number, bodyBytes = 0): void {
    this.#requests.giveBack(weight);
    this.#bodies.giveBack(bodyBytes);
  }

  #fail({ req, res }: Exchange, error: unknown): void {
    const requestId = answer(req, res, errorReply(error), this.#lingering);
    if (!isRequestError(error) || error.code === "internal") {
      publishWarning("Cannot answer a request", error, requestId);
    }
  }
}
