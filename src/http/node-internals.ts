/**
 * What the server uses of Node and Node does not document, for safety: its HTTP parser hands over each request by
 * calling `onIncoming`, and each piece of a body by calling `push`. Where that is not so, these functions have
 * no effect.
 */

import type { IncomingMessage } from "node:http";

/** Has Node's parser drop the rest of a packet, which may hold two thousand requests. */
const SKIP_PACKET = 2;

interface Parser {
  onIncoming: (req: IncomingMessage & { upgrade: boolean }) => number;
}

/**
 * Has Node hand over no further request of this connection. It keeps some KiB of each until the connection
 * closes, so one client without a token could fill the memory, and keep the processor busy.
 */
export function ignoreFollowing(req: IncomingMessage): void {
  const { parser } = (req.socket ?? {}) as { parser?: Parser | null };
  if (!parser) return;
  parser.onIncoming = (next) => {
    next.upgrade = false; // else Node hands the connection over
    next.resume();
    return SKIP_PACKET;
  };
}

/** Has Node keep nothing of a body that nobody reads: a packet may hold 11,000 pieces, each kept for a while. */
export function ignoreBody(req: IncomingMessage): void {
  req.push = () => true;
  req.resume(); // or the parser may have paused the connection
}

/**
 * Hands over each piece of a body as it comes, until it is called off: a stream that is paused keeps them, and
 * 16 KiB in pieces of one byte take 8 MB.
 *
 * @param take returns false if nothing more should be read for now.
 * @returns calls it off.
 */
export function takePieces(req: IncomingMessage, take: (piece: Buffer) => boolean): () => void {
  const { push } = req;
  req.push = (piece: Buffer | null) => (piece === null ? push.call(req, piece) : take(piece));
  return () => {
    req.push = push;
  };
}
