/**
 * Reads the head of a request: its framing, bearer token and media type, and which client a trusted proxy names.
 *
 * In our own server, two `Host`, `Authorization` or `Content-Type` headers arrive as one value, joined by a comma
 * (`joinDuplicateHeaders`), which no check accepts.
 */
import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { PlantStoreError, type RequestErrorCode } from "../core/errors.ts";
import type { TrustedProxies } from "../core/services.ts";
import { quote } from "../core/text.ts";

/** A request with more headers is refused. */
export const HEADERS_MAX = 100;

/** `uri-host [":" port]`, RFC 9110 section 7.2; empty for a target without an authority. */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+;=%-]*)(?::[0-9]*)?$/;

/**
 * What two programs could read in two ways (request smuggling, RFC 9112 section 11.2) and Node's parser lets
 * through; `undefined` for an ordinary request. Only `PlantServer` asks: a server of the embedder has its own rules.
 */
export function framingErrorOf(req: IncomingMessage): PlantStoreError | undefined {
  const { httpVersion, rawHeaders } = req;
  const { host, "transfer-encoding": coding, "content-length": length } = req.headers;
  if (rawHeaders.length > 2 * HEADERS_MAX) {
    const message = `headers: expected at most ${HEADERS_MAX}, got more`;
    return new PlantStoreError("header_too_large", message);
  }
  if (httpVersion !== "1.1" && httpVersion !== "1.0") {
    return badRequest(`HTTP: expected version 1.1 or 1.0, got ${httpVersion}`);
  }
  if (host === undefined ? httpVersion === "1.1" : !HOST.test(host)) {
    return badRequest(`Host: expected one host name, got ${quote(host ?? "")}`);
  }
  if (length === "") return badRequest("Content-Length: expected one number, or nothing");
  if (coding === undefined) return undefined;
  // RFC 9112 section 6.1: a proxy on the way may not know chunks, and so not where the body ends.
  const isChunked = httpVersion === "1.1" && coding.toLowerCase() === "chunked";
  if (isChunked && length === undefined) return undefined;
  return badRequest("Transfer-Encoding: expected chunked alone in HTTP/1.1, or nothing");
}

function badRequest(message: string, cause?: unknown): PlantStoreError {
  return new PlantStoreError("bad_request", message, { cause });
}

const PARSER_ERRORS: Readonly<Record<string, [RequestErrorCode, string]>> = {
  HPE_HEADER_OVERFLOW: ["header_too_large", "headers: expected fewer bytes"],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ["body_too_large", "body: expected shorter chunk extensions"],
  HPE_PAUSED: ["overloaded", "a response before it is not read yet; send the request again later"], // over TLS Node parses on while it is paused
  ERR_HTTP_REQUEST_TIMEOUT: ["request_timeout", "request: expected all of it sooner"],
};

/** An error of Node's parser, for the client; `undefined` if the client has left. */
export function errorOfParser(cause: NodeJS.ErrnoException & { readonly reason?: string }) {
  const { code = "", reason = code } = cause;
  const known = PARSER_ERRORS[code];
  if (known !== undefined) return new PlantStoreError(...known, { cause });
  if (!code.startsWith("HPE_")) return undefined;
  return badRequest(`HTTP: expected a valid request: ${reason}`, cause);
}

/** The scheme is case-insensitive (RFC 9110 section 11.1); the token is a `b64token` (RFC 6750 section 2.1). */
const BEARER = /^bearer +[A-Za-z0-9._~+/-]+=*$/i;
/** A bearer header with anything in place of a token; perhaps the second header. */
const BEARER_ATTEMPT = /(?:^|, )bearer +[^ ]/i;

/** The token that a request shows. @throws PlantStoreError `missing_token` or `invalid_token`. */
export function readBearer({ headers: { authorization = "" } }: IncomingMessage): string {
  if (BEARER.test(authorization)) return authorization.slice("Bearer ".length).trimStart();
  if (BEARER_ATTEMPT.test(authorization)) throw invalidToken("text of another form");
  const got = authorization === "" ? "nothing" : "another scheme or no token";
  const message = `Authorization: expected "Bearer <ACCESS_TOKEN>", got ${got}`;
  throw new PlantStoreError("missing_token", message);
}

export function invalidToken(got = "one that is unknown, expired or revoked"): PlantStoreError {
  return new PlantStoreError("invalid_token", `Authorization: expected a live token, got ${got}`);
}

const WORD = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const PARAMETER = `${WORD}=(?:${WORD}|"(?:[^"\\\\]|\\\\.)*")`;
const UTF8 = 'charset=(?:utf-?8|"utf-?8")';
/** With any parameters (RFC 9110 section 5.6.6), except a charset other than UTF-8. */
const JSON_TYPE = new RegExp(
  `^[ \\t]*application/json[ \\t]*(?:;[ \\t]*(?:(?:${UTF8}|(?!charset=)${PARAMETER})[ \\t]*)?)*$`,
  "i",
);

/** @throws PlantStoreError `unsupported_media_type` or `unsupported_encoding`. */
export function checkBodyHeaders({ headers }: IncomingMessage): void {
  const { "content-type": type = "", "content-encoding": encoding = "identity" } = headers;
  // A comma may join two headers, each with half of a parameter.
  if (type !== "application/json" && (type.includes(",") || !JSON_TYPE.test(type))) {
    const message = `Content-Type: expected application/json in UTF-8, got ${quote(type)}`;
    throw new PlantStoreError("unsupported_media_type", message);
  }
  if (encoding.toLowerCase() !== "identity") {
    const message = "Content-Encoding: expected identity or nothing, got another coding";
    throw new PlantStoreError("unsupported_encoding", message);
  }
}

/** Of an IPv4 address that is written as IPv6, and of an address with its interface. */
const PREFIX_OR_ZONE = /^::ffff:(?=[0-9.]+$)|%.*/gi;

/**
 * The address of the peer; of a trusted proxy, the last address in `X-Forwarded-For` that is no trusted proxy:
 * each proxy appends the address that called it, and the client may have invented what is before.
 */
export function clientOf({ headers, socket }: IncomingMessage, trusted?: TrustedProxies) {
  const peer = socket.remoteAddress?.replace(PREFIX_OR_ZONE, "");
  if (peer === undefined || trusted === undefined) return peer;
  // No real request passes through more than 32 proxies.
  const before = `${headers["x-forwarded-for"] ?? ""}`.split(",").slice(-32);
  const hops = [...before.map((text) => text.trim().replace(PREFIX_OR_ZONE, "")), peer];
  return hops.findLast((hop, at) => {
    return isIP(hops[at - 1] ?? "") === 0 || !trusted.check(hop, isIP(hop) === 6 ? "ipv6" : "ipv4");
  });
}
