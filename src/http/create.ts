/**
 * The operation that creates: reads the body within its limits, and responds once the plant is durable.
 *
 * A request that got a response, or whose client has left, before its body was whole creates nothing.
 */
import { PlantStoreError } from "../core/errors.ts";
import { encodePlant, parseNewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import type { Exchange } from "./exchange.ts";
import { checkBodyHeaders } from "./head.ts";
import { readPieces } from "./node-internals.ts";

/** A body, its text, and its record. */
const COPIES = 3;
/** No client sends a plant in more: 4 MiB take 7,825 packets of 536 bytes, and one packet may hold 11,000 chunks. */
const PIECES_MAX = 8192;
const NOTHING: Buffer = Buffer.alloc(0);

/**
 * Reads the body, creates, and responds, also if that fails.
 *
 * @throws PlantStoreError for a header, `overloaded`, or `internal` if other code has read the body.
 */
export function create(exchange: Exchange, plants: PlantService, bytesMax: number): void {
  const { req, res, isOurs } = exchange;
  const verifiedAt = req.socket.bytesRead;
  checkBodyHeaders(req);
  const declared = Number(req.headers["content-length"] ?? 0);
  if (declared > bytesMax) throw tooLarge(`${bytesMax} bytes`);
  if (req.readableEnded || req.readableDidRead || req.readableEncoding) throw touchedBody();
  exchange.hold(COPIES * declared);
  let [body, size, pieces] = [NOTHING, 0, 0];
  readPieces(req, (piece) => {
    if (res.headersSent) return; // it was refused
    if (piece === null) {
      exchange.work = store(exchange, plants, body.subarray(0, size), verifiedAt);
      return;
    }
    const end = size + piece.length;
    try {
      if (!Buffer.isBuffer(piece)) throw touchedBody();
      if (end > bytesMax) throw tooLarge(`${bytesMax} bytes`);
      if (++pieces > PIECES_MAX) throw tooLarge(`${PIECES_MAX} chunks`);
      exchange.hold(COPIES * end);
      if (size === 0) body = piece;
      else {
        const room = end <= declared ? declared : Math.min(2 * end, bytesMax);
        if (end > body.length) body = Buffer.concat([body.subarray(0, size)], room);
        piece.copy(body, size);
      }
      size = end;
    } catch (error) {
      body = NOTHING; // the connection may keep the request
      exchange.fail(error);
    }
  });
  if (isOurs && req.headers.expect !== undefined && req.httpVersion === "1.1") res.writeContinue();
}

/** Creates the plant of a body, and responds. Never rejects. @param verifiedAt `bytesRead` at the token check. */
async function store(exchange: Exchange, plants: PlantService, body: Buffer, verifiedAt: number) {
  const { req, res } = exchange;
  try {
    exchange.bodyBytes = body.length;
    if (req.socket.bytesRead !== verifiedAt) await exchange.verifyAgain();
    if (res.headersSent || exchange.isOver) return;
    const plant = parseNewPlant(body);
    await plants.create(plant);
    exchange.work = undefined; // or what it holds would wait for this promise: 3 % of a create
    exchange.respond(200, encodePlant(plant));
  } catch (error) {
    exchange.fail(error);
  }
}

function tooLarge(limit: string): PlantStoreError {
  return new PlantStoreError("body_too_large", `body: expected at most ${limit}, got more`);
}

/** The client sees it: the developer who mounted the listener wrongly sends the first request. */
function touchedBody(): PlantStoreError {
  const what = "body: expected unread bytes, got a body that other code has read or decodes";
  const how = "mount the plant store's listener before any body parser and setEncoding()";
  return new PlantStoreError("internal", `${what}; ${how}`);
}
