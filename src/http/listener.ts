/**
 * From a request to its answer: the order in which faults are told.
 *
 * 401, 404, 405, 403, 417, 415, 413, 400, 503: a client and a test need one
 * order, and nothing is said about paths, nor a body read, before the token is
 * accepted. Works mounted in anybody's `node:http` server; what the HTTP
 * parser refuses is that server's to answer (see http/server for ours). Keeps
 * no state but the bytes of bodies under way.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { publishWarning } from "../core/channels.ts";
import type { PlantService, TokenVerifier } from "../core/services.ts";
import { answer } from "./answer.ts";
import { authenticate, requireScope } from "./bearer.ts";
import { Pending, readBody, requireJson, requireLength } from "./body.ts";
import { createPlant } from "./create-plant.ts";
import { errorReply, isRequestError, type Reply } from "./reply.ts";
import { findMethods, normalizeBasePath, requireMethod } from "./router.ts";

export interface ListenerOptions {
  readonly plants: PlantService;
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
   * More requests than this are never under way at once, because each costs
   * about 4 KiB besides its body; beyond it 503. Default: 16,384.
   */
  readonly pendingRequestsMax?: number;
}

/** Handles one request; `sendContinue` is called before the body is read. Never rejects. */
export type Handler = (
  req: IncomingMessage,
  res: ServerResponse,
  sendContinue?: () => void,
) => Promise<void>;

/**
 * A request listener for any `node:http` server.
 *
 * @throws RangeError when the base path is not one.
 */
export function createRequestListener(options: ListenerOptions): RequestListener {
  const handle = createHandler(options);
  // Frameworks pass a third argument of their own, which must not arrive as sendContinue.
  return (req, res) => void handle(req, res);
}

/** The same for our own server, which says 100 Continue itself. */
export function createHandler(options: ListenerOptions): Handler {
  const { plants, tokens, bodyBytesMax = 1024 * 1024 } = options;
  const basePath = normalizeBasePath(options.basePath ?? "");
  const pending = new Pending(
    options.pendingBytesMax ?? 64 * 1024 * 1024,
    options.pendingRequestsMax ?? 16_384,
  );

  const reply = async (
    req: IncomingMessage,
    res: ServerResponse,
    sendContinue?: () => void,
  ): Promise<Reply | undefined> => {
    const sender = await authenticate(req, tokens);
    const methods = findMethods(req.url ?? "", basePath);
    if (!methods.includes(req.method ?? "")) res.setHeader("Allow", methods.join(", "));
    requireMethod(req.method, methods);
    requireScope(sender, "write");
    requireJson(req);
    requireLength(req.headers, bodyBytesMax);
    pending.enter();
    try {
      sendContinue?.();
      const body = await readBody(req, bodyBytesMax, pending);
      if (body === undefined) return undefined;
      try {
        return await createPlant(plants, body);
      } finally {
        pending.giveBack(body.length);
      }
    } finally {
      pending.leave();
    }
  };

  return async (req, res, sendContinue) => {
    try {
      const result = await reply(req, res, sendContinue);
      if (result !== undefined) answer(req, res, result);
    } catch (error) {
      if (!isRequestError(error)) publishWarning("Cannot answer a request", error);
      answer(req, res, errorReply(error));
    }
  };
}
