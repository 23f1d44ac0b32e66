/**
 * The body of a request: what it may be, and its bytes within the limits.
 *
 * A body counts against the shared bound from its first byte until its request
 * is answered, so bodies being read and records waiting for the disk are
 * bounded together. Knows nothing of JSON.
 */
import type { IncomingHttpHeaders, IncomingMessage } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import { headerValues } from "./raw-headers.ts";

/** One parameter of a media type, RFC 9110 section 5.6.6. */
const PARAMETER =
  /[ \t]*;[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[^"\\]|\\.)*"))?/y;

/**
 * @throws PlantStoreError `expectation_failed`, `unsupported_media_type` or
 * `unsupported_encoding`.
 */
export function requireJson({ headers, rawHeaders }: IncomingMessage): void {
  const { expect, "content-encoding": encoding } = headers;
  if (expect !== undefined && expect.toLowerCase() !== "100-continue") {
    throw new PlantStoreError("expectation_failed", "Expect: expected 100-continue or nothing");
  }
  const [type, ...others] = headerValues(rawHeaders, "content-type");
  if (type === undefined || others.length > 0 || !isJsonType(type)) {
    const got = type === undefined ? "nothing" : "another type";
    throw new PlantStoreError(
      "unsupported_media_type",
      `Content-Type: expected application/json in UTF-8, got ${others.length > 0 ? "several" : got}`,
    );
  }
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new PlantStoreError(
      "unsupported_encoding",
      "Content-Encoding: expected identity or nothing, got another coding",
    );
  }
}

/**
 * Refuses a declared length before the body is read, or even sent.
 *
 * @throws PlantStoreError `body_too_large`.
 */
export function requireLength(headers: IncomingHttpHeaders, bytesMax: number): void {
  if (Number(headers["content-length"] ?? 0) > bytesMax) throw tooLarge(bytesMax);
}

/** `application/json` with any parameters but a charset other than UTF-8. */
function isJsonType(type: string): boolean {
  const [essence = ""] = type.split(";", 1);
  if (essence.trim().toLowerCase() !== "application/json") return false;
  PARAMETER.lastIndex = essence.length;
  while (PARAMETER.lastIndex < type.trimEnd().length) {
    const parameter = PARAMETER.exec(type);
    if (parameter === null) return false;
    const [, name, value = ""] = parameter;
    const text = value.replace(/^"|"$/g, "").toLowerCase();
    if (name?.toLowerCase() === "charset" && text !== "utf-8" && text !== "utf8") return false;
  }
  return true;
}

/** Requests that are under way in one listener, and the bytes of their bodies. */
export class Pending {
  readonly #bytesMax: number;
  readonly #requestsMax: number;
  #bytes = 0;
  #requests = 0;

  constructor(bytesMax: number, requestsMax: number) {
    this.#bytesMax = bytesMax;
    this.#requestsMax = requestsMax;
  }

  /** @throws PlantStoreError `overloaded` when as many are under way as may be. */
  enter(): void {
    if (this.#requests >= this.#requestsMax) throw overloaded();
    this.#requests++;
  }

  leave(): void {
    this.#requests--;
  }

  /** False, and nothing taken, when the bound is reached. */
  take(bytes: number): boolean {
    if (this.#bytes + bytes > this.#bytesMax) return false;
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/**
 * Collects a body. Resolves with `undefined` when the client went away before
 * its end: nobody is left to answer.
 *
 * @throws PlantStoreError `body_too_large`, before all of it is read, or
 * `overloaded`; what was taken from `pending` is given back then.
 * @throws TypeError when somebody else, a body parser perhaps, has read it.
 */
export function readBody(
  req: IncomingMessage,
  bytesMax: number,
  pending: Pending,
): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    if (req.readableEnded) throw new TypeError("the body was read before the listener was called");
    if (req.destroyed) return resolve(undefined);
    const chunks: Buffer[] = [];
    let size = 0;

    const onData = (chunk: Buffer) => {
      if (size + chunk.length > bytesMax) stop(tooLarge(bytesMax));
      else if (!pending.take(chunk.length)) stop(overloaded());
      else {
        size += chunk.length;
        chunks.push(chunk);
      }
    };
    const onEnd = () => {
      detach();
      resolve(chunks.length === 1 ? chunks[0] : Buffer.concat(chunks));
    };
    const onClose = () => {
      detach();
      pending.giveBack(size);
      resolve(undefined);
    };
    const stop = (error: PlantStoreError) => {
      detach();
      pending.giveBack(size);
      reject(error);
    };
    const detach = () => {
      req.off("data", onData).off("end", onEnd).off("close", onClose);
    };
    req.on("data", onData).on("end", onEnd).on("close", onClose);
    req.on("error", () => {}); // "close" follows
  });
}

function tooLarge(bytesMax: number): PlantStoreError {
  return new PlantStoreError(
    "body_too_large",
    `body: expected at most ${bytesMax} bytes, got more`,
  );
}

function overloaded(): PlantStoreError {
  return new PlantStoreError(
    "overloaded",
    "Cannot take the request now: too many are under way; send it again later",
  );
}
