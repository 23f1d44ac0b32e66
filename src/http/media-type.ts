/**
 * Whether the body that is announced is one of ours: JSON in UTF-8, in no
 * other coding. Judged before any of it is read.
 */
import type { IncomingMessage } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import { readSoleHeader, SEVERAL, trimSpace } from "./raw-headers.ts";

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
