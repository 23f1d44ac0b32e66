/**
 * Judges the head of a request before its path and body: whether two programs could read it in two
 * ways (request smuggling, RFC 9112 section 11.2), and whether it announces JSON in UTF-8.
 *
 * Of two `Authorization` or `Content-Type` headers Node keeps only the first in `headers`, so such
 * headers are read from `rawHeaders`. (`headersDistinct` throws for a header `__proto__`,
 * CVE-2026-21710.)
 */
import type { IncomingMessage } from "node:http";
import { PlantStoreError, type RequestErrorCode } from "../core/errors.ts";

/** `uri-host [":" port]`, RFC 9110 section 7.2; empty where the target has no authority. */
const HOST = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?$/;

const SPACE = 0x20;
const DIGITS = /^[0-9]+$/;

/** A request with more headers than this is refused: each costs memory while the request waits. */
const HEADERS_MAX = 100;

/**
 * The value for `maxHeadersCount` of our own servers. Node drops further headers without a sign,
 * up to 27 more may be kept; so the limit is one higher than ours, and we count what is left.
 */
export const NODE_HEADERS_MAX = HEADERS_MAX + 1;

/** What is wrong with a request that the parser of our own server let through, if anything is. */
export function findFramingFault(req: IncomingMessage): PlantStoreError | undefined {
  const { httpVersion, rawHeaders } = req;
  if (rawHeaders.length > 2 * HEADERS_MAX) {
    return new PlantStoreError(
      "header_too_large",
      `headers: expected at most ${HEADERS_MAX} of them, got more`,
    );
  }
  return toError(findVersionFault(httpVersion) ?? findHeaderFault(rawHeaders, httpVersion));
}

/**
 * The same in a server of somebody else, whose parser may be a lenient one (`insecureHTTPParser`):
 * only what makes the end of the body doubtful. HTTP/2 has frames, and an adapter no raw headers.
 */
export function findLengthFault(req: IncomingMessage): PlantStoreError | undefined {
  const { httpVersion, httpVersionMajor, rawHeaders = [] } = req;
  if (httpVersionMajor > 1) return undefined;
  return toError(findHeaderFault(rawHeaders, httpVersion, false));
}

function toError(fault: string | undefined): PlantStoreError | undefined {
  return fault === undefined ? undefined : new PlantStoreError("bad_request", fault);
}

function findVersionFault(httpVersion: string): string | undefined {
  if (httpVersion === "1.1" || httpVersion === "1.0") return undefined;
  return `HTTP: expected version 1.1 or 1.0, got ${httpVersion}`;
}

/**
 * HTTP/1.1 needs exactly one valid Host (RFC 9112 section 3.2), and a body exactly one end: a length
 * or chunks, not both, and no coding that we do not know (section 6). Called for each request, so it
 * makes one pass and no lists: 4 % more creates at 64 connections, none at 256 (12 rounds by turns).
 */
function findHeaderFault(
  rawHeaders: readonly string[],
  httpVersion: string,
  needsHost = true,
): string | undefined {
  let hosts = 0;
  let codings = 0;
  let lengths = 0;
  let areHostsValid = true;
  let isChunked = true;
  let isLengthValid = true;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    const value = rawHeaders[at + 1] as string;
    // A lenient parser leaves the space before a colon in the name (RFC 9112 section 5.1).
    if (name.charCodeAt(name.length - 1) <= SPACE)
      return "headers: expected no space before a colon";
    if (isNamed(name, "host")) {
      hosts++;
      areHostsValid &&= HOST.test(value);
    } else if (isNamed(name, "transfer-encoding")) {
      codings++;
      isChunked = value.toLowerCase() === "chunked";
    } else if (isNamed(name, "content-length")) {
      lengths++;
      isLengthValid &&= DIGITS.test(value);
    }
  }
  if (needsHost && (!areHostsValid || hosts > 1 || (hosts === 0 && httpVersion !== "1.0"))) {
    return `Host: expected one header, got ${areHostsValid ? hosts : "an invalid one"}`;
  }
  // RFC 9112 section 6.1: a proxy on the way may not know chunks, and so not where the body ends.
  if (codings > 0 && httpVersion === "1.0") return "Transfer-Encoding: expected none in HTTP/1.0";
  if (codings > 1 || !isChunked) return "Transfer-Encoding: expected chunked alone, or nothing";
  if (lengths > 1 || !isLengthValid) return "Content-Length: expected one number, or nothing";
  if (lengths + codings > 1) return "Content-Length: expected none beside Transfer-Encoding";
  return undefined;
}

/** What to tell the client about a failure of its connection; `undefined`: nobody is left to tell. */
export function describeParserFault(cause: NodeJS.ErrnoException): PlantStoreError | undefined {
  const { code = "" } = cause;
  const known = PARSER_FAULTS.get(code);
  if (known !== undefined) return new PlantStoreError(...known, { cause });
  if (!code.startsWith("HPE_")) return undefined;
  const { reason } = cause as { reason?: string };
  return new PlantStoreError("bad_request", `HTTP: expected a valid request: ${reason ?? code}`, {
    cause,
  });
}

const PARSER_FAULTS = new Map<string, [code: RequestErrorCode, message: string]>([
  ["HPE_HEADER_OVERFLOW", ["header_too_large", "headers: expected fewer bytes of them"]],
  [
    "HPE_CHUNK_EXTENSIONS_OVERFLOW",
    ["body_too_large", "body: expected fewer bytes of chunk extensions"],
  ],
  ["ERR_HTTP_REQUEST_TIMEOUT", ["request_timeout", "request: expected all of it sooner"]],
]);

/** The value of a header that was sent more than once. */
export const SEVERAL: unique symbol = Symbol("several");

/**
 * The value of a header; `undefined` if there is none. If the client sent none, what the program
 * around the listener has put into `headers` counts: middleware that turns a cookie into a token,
 * or an adapter whose requests have no raw headers.
 *
 * @param name in lower case.
 */
export function readSoleHeader(
  { rawHeaders = [], headers }: IncomingMessage,
  name: string,
): string | typeof SEVERAL | undefined {
  let value: string | undefined;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (!isNamed(rawHeaders[at] as string, name)) continue;
    if (value !== undefined) return SEVERAL;
    value = rawHeaders[at + 1];
  }
  return value ?? soleOf(headers[name]);
}

function soleOf(set: string | string[] | undefined): string | typeof SEVERAL | undefined {
  if (!Array.isArray(set)) return set;
  return set.length > 1 ? SEVERAL : set[0];
}

/** @param name in lower case. */
export function isNamed(present: string, name: string): boolean {
  return present.length === name.length && present.toLowerCase() === name;
}

/** Without the optional whitespace around it, which is spaces and tabs alone (RFC 9110 section 5.6.3). */
export function trimSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && isSpace(text, start)) start++;
  while (end > start && isSpace(text, end - 1)) end--;
  return text.slice(start, end);
}

function isSpace(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return code === 0x20 || code === 0x09;
}

/** The next parameter of a media type, RFC 9110 section 5.6.6, after any empty ones. */
const PARAMETER =
  /(?:[ \t]*;)+[ \t]*(?:([!#$%&'*+.^_`|~0-9A-Za-z-]+)=([!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[^"\\]|\\.)*"))?/y;

/** @throws PlantStoreError `expectation_failed`, whether or not there is a body. */
export function requireExpectation({ headers: { expect } }: IncomingMessage): void {
  if (expect === undefined || expect.toLowerCase() === "100-continue") return;
  throw new PlantStoreError("expectation_failed", "Expect: expected 100-continue or nothing");
}

/** @throws PlantStoreError `unsupported_media_type` or `unsupported_encoding`. */
export function requireJson(req: IncomingMessage): void {
  const { "content-encoding": encoding } = req.headers;
  const type = readSoleHeader(req, "content-type");
  if (type === undefined || type === SEVERAL || !isJsonType(type)) {
    const got = type === undefined ? "nothing" : type === SEVERAL ? "several" : "another type";
    throw new PlantStoreError(
      "unsupported_media_type",
      `Content-Type: expected application/json in UTF-8, got ${got}`,
    );
  }
  if (encoding !== undefined && encoding.toLowerCase() !== "identity") {
    throw new PlantStoreError(
      "unsupported_encoding",
      "Content-Encoding: expected identity or nothing, got another coding",
    );
  }
}

/** `application/json` with any parameters but a charset other than UTF-8. In one pass. */
function isJsonType(header: string): boolean {
  if (header === "application/json") return true;
  const type = trimSpace(header);
  const [essence = ""] = type.split(";", 1);
  if (trimSpace(essence).toLowerCase() !== "application/json") return false;
  PARAMETER.lastIndex = essence.length;
  while (PARAMETER.lastIndex < type.length) {
    const parameter = PARAMETER.exec(type);
    if (parameter === null) return false;
    const [, name, value = ""] = parameter;
    const text = value.replace(/^"|"$/g, "").toLowerCase();
    if (name?.toLowerCase() === "charset" && text !== "utf-8" && text !== "utf8") return false;
  }
  return true;
}
