/**
 * Undocumented members of Node, for safety and speed: its parser hands over requests by `onIncoming`, and pieces of
 * bodies by `push`; a response sends its `_header`. On other servers bodies are read from their streams.
 */
import { AsyncResource } from "node:async_hooks";
import { IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";

/** Takes each piece of a body, and `null` after the last. */
type OnPiece = (piece: Buffer | null) => void;

/** A request whose body may be read without a stream in between. */
export class DirectRequest extends IncomingMessage {
  declare onPiece: OnPiece | undefined; // set by readPieces

  override push(piece: Buffer | null): boolean {
    if (this.onPiece === undefined) return super.push(piece);
    this.onPiece(piece);
    return true;
  }

  /** Node keeps a request until this is true. */
  // @ts-expect-error The types call the accessor a property.
  override get readableEnded(): boolean {
    // @ts-expect-error The same.
    return this.onPiece === undefined ? super.readableEnded : this.complete;
  }
}

/** Reads a body, past its stream if nothing of it is there yet (8 to 13 % less time a create). */
export function readPieces(req: IncomingMessage, onPiece: OnPiece): void {
  if (req instanceof DirectRequest && !req.complete && req.readableLength === 0) {
    req.onPiece = onPiece;
    req.read(0); // marks the body as read, or Node would discard it after the response
  } else {
    // Listeners of a stream run outside of the AsyncLocalStorage of the program around them.
    const scope = new AsyncResource("plant-store"); // with AsyncResource.bind() a create takes twice as long
    const take = (piece: Buffer | null = null) => scope.runInAsyncScope(onPiece, undefined, piece);
    req.on("data", take).on("end", take);
    req.resume(); // other code may have paused it
  }
}

type Response = ServerResponse & { _header?: string };
let [dateSecond, date] = [0, ""];

/**
 * Like `writeHead`, which examines each name and each value again (5 % of a create).
 * @param headers valid names and values in turn; one is `Content-Length`, and none `Connection`.
 */
export function writeHeadAsText(res: Response, status: number, headers: string[]): void {
  const isPlain = res.shouldKeepAlive && res.getHeaderNames().length === 0; // tools for tracing may set some
  if (!isPlain) return void res.writeHead(status, headers);
  const second = Math.floor(Date.now() / 1000);
  if (second !== dateSecond) [dateSecond, date] = [second, new Date().toUTCString()];
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`;
  for (let at = 0; at < headers.length; at += 2) head += `${headers[at]}: ${headers[at + 1]}\r\n`;
  res.statusCode = status;
  res._header = `${head}Date: ${date}\r\nConnection: keep-alive\r\n\r\n`;
}

/** Makes Node's parser drop the rest of a packet, which may hold two thousand requests. */
const SKIP_PACKET = 2;

/**
 * Makes Node hand over no further request of this connection. It keeps some KiB of each until the connection
 * closes, so one client without a token could fill the memory, and keep the processor busy.
 */
export function ignoreFollowing(req: IncomingMessage): void {
  const { parser } = (req.socket ?? {}) as { parser?: { onIncoming: unknown } | null };
  if (!parser) return;
  parser.onIncoming = (next: IncomingMessage & { upgrade: boolean }) => {
    next.upgrade = false; // else Node hands the connection over
    next.resume();
    return SKIP_PACKET;
  };
}

/** Drops a body that nobody reads. Otherwise Node keeps each piece for a while, and one packet may hold 11,000. */
export function ignoreBody(req: IncomingMessage): void {
  req.push = () => true;
  req.resume(); // or the parser may have paused the connection
}

/**
 * Keeps a body in one piece until a promise is settled, and hands it on then: a stream that is paused keeps the
 * pieces as they come, and 16 KiB in pieces of one byte take 8 MB.
 */
export function holdBody(req: IncomingMessage, until: Promise<unknown>): void {
  const { push } = req;
  let [held, size, isWhole] = [Buffer.allocUnsafe(1024), 0, false];
  req.push = (piece: Buffer | null) => {
    const end = size + (piece?.length ?? 0);
    if (end > held.length) held = Buffer.concat([held.subarray(0, size)], 2 * end);
    piece?.copy(held, size);
    [size, isWhole] = [end, piece === null];
    return false; // no more is read for now
  };
  const release = () => {
    req.push = push;
    if (size > 0) req.push(held.subarray(0, size));
    if (isWhole) req.push(null);
  };
  until.then(release, release);
}
