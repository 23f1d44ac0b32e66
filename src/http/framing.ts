/**
 * Which requests our own server does not let in, though they may have a path
 * and a token: what Node's parser refuses, and what it lets through that two
 * programs could read in two ways (RFC 9112 section 11.2, request smuggling).
 */
import type { IncomingMessage } from "node:http";
import { PlantStoreError, type RequestErrorCode } from "../core/errors.ts";
import { isNamed } from "./raw-headers.ts";

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
  const fault = PARSER_FAULTS.get(code);
  if (fault !== undefined) return new PlantStoreError(fault.code, fault.message, { cause });
  if (!code.startsWith("HPE_")) return undefined;
  const { reason } = cause as { reason?: string };
  return new PlantStoreError("bad_request", `HTTP: expected a valid request: ${reason ?? code}`, {
    cause,
  });
}

const PARSER_FAULTS = new Map<string, { code: RequestErrorCode; message: string }>([
  [
    "HPE_HEADER_OVERFLOW",
    { code: "header_too_large", message: "headers: expected fewer bytes of them" },
  ],
  [
    "HPE_CHUNK_EXTENSIONS_OVERFLOW",
    { code: "body_too_large", message: "body: expected fewer bytes of chunk extensions" },
  ],
  [
    "ERR_HTTP_REQUEST_TIMEOUT",
    { code: "request_timeout", message: "request: expected all of it sooner" },
  ],
]);
