/**
 * The cost of reading a request head grows linearly with its length, no matter what it contains. The
 * cost is counted, not timed: the characters that methods of strings and expressions look at.
 */
import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { type TestContext, test } from "node:test";
import { errorReply } from "../../src/http/answer.ts";
import {
  Authenticator,
  findFramingFault,
  requireExpectation,
  requireJson,
} from "../../src/http/head.ts";
import { Cors, findRoute } from "../../src/http/listener.ts";
import { parseListQuery, plantReply, wantsStream } from "../../src/http/reads.ts";
import { nameRequest, pathOf } from "../../src/http/request-message.ts";

function requestWith(name: string, value: string): IncomingMessage {
  const rawHeaders = ["Host", "a", name, value];
  const headers = { [name.toLowerCase()]: value };
  return { httpVersion: "1.1", headers, rawHeaders, socket: {} } as unknown as IncomingMessage;
}

const cors = new Cors(["https://a.example", "https://b.example"]);

/** Every function that reads a part of a head, and how its worst inputs begin. */
const READERS: Readonly<
  Record<string, readonly [prefix: string, read: (text: string) => unknown]>
> = {
  "Content-Type": ["application/json", (text) => requireJson(requestWith("Content-Type", text))],
  "Content-Encoding": [
    "identity",
    (text) => {
      const req = requestWith("Content-Encoding", text);
      req.rawHeaders.push("Content-Type", "application/json");
      requireJson(req);
    },
  ],
  Expect: ["100-continue", (text) => requireExpectation(requestWith("Expect", text))],
  Accept: ["application/x-ndjson", (text) => wantsStream(requestWith("Accept", text))],
  Authorization: [
    "Bearer a",
    (text) => {
      const authenticator = new Authenticator({ verify: () => undefined });
      return authenticator.authenticate(requestWith("Authorization", text));
    },
  ],
  Host: ["a", (text) => findFramingFault(requestWith("Host", text))],
  "Content-Length": ["1", (text) => findFramingFault(requestWith("Content-Length", text))],
  "Transfer-Encoding": [
    "chunked",
    (text) => findFramingFault(requestWith("Transfer-Encoding", text)),
  ],
  "a header's name": ["X", (text) => findFramingFault(requestWith(text, ""))],
  "X-Request-Id": ["a", (text) => nameRequest(requestWith("X-Request-Id", text))],
  "If-None-Match": ['"a"', (text) => plantReply("{}", text)],
  "the refused packet": [
    "\norigin:",
    (text) => cors.markReply(errorReply(undefined), Buffer.from(text)),
  ],
  "the path": ["/garden/plants/", (text) => findRoute(text, "/garden")],
  "the absolute target": ["http://a", (text) => pathOf(text)],
  "the query": ["/plants?limit=1", (text) => parseListQuery(text)],
};

/** Texts that an input repeats. */
const PIECES: readonly string[] = [
  ...[" ", "\t", "\u00a0", ";", ",", "=", '"', "\\", "/", "*", "%", "&", "?", "#", ":", "[", "-"],
  ...["a", "0", ";\u00a0", "; ", " ;", ";a=b", ';a="', ';a="\\"', ';a="b"', "  a", ", ", " ,"],
  ...[",a", ",*/*", ";q=0", ";q=0,", '"a",', 'W/"', "%25", "&limit=1", "&after=1", "=&", "http://"],
  ...["\norigin:", "\norigin: a", "chunked,", "a.", "::"],
];

const LENGTH = 2048;

/** Makes the built-in methods count what they look at: up to what they find, or everything. */
function countCharacters(t: TestContext): () => number {
  let count = 0;
  const { exec } = RegExp.prototype;
  t.mock.method(RegExp.prototype, "exec", function (this: RegExp, text: string) {
    const from = this.sticky || this.global ? this.lastIndex : 0;
    const found = exec.call(this, text);
    count += found === null ? text.length - from : found.index + found[0].length - from;
    return found;
  });
  const whole = ["trim", "trimEnd", "trimStart", "toLowerCase", "toUpperCase", "split"] as const;
  for (const name of whole) {
    const original = String.prototype[name] as (...args: unknown[]) => unknown;
    t.mock.method(String.prototype, name, function (this: string, ...args: unknown[]) {
      count += this.length;
      return original.apply(this, args);
    });
  }
  for (const name of ["indexOf", "includes", "slice", "charCodeAt"] as const) {
    const original = String.prototype[name] as (...args: unknown[]) => unknown;
    t.mock.method(String.prototype, name, function (this: string, ...args: unknown[]) {
      const result = original.apply(this, args);
      if (typeof result === "string") count += result.length;
      else if (name === "charCodeAt") count++;
      else if (name === "indexOf" && Number(result) >= 0) {
        count += Number(result) - Number(args[1] ?? 0);
      } else count += this.length - Number(args[1] ?? 0);
      return result;
    });
  }
  return () => count;
}

for (const [name, [prefix, read]] of Object.entries(READERS)) {
  test(`${name} of four times the length takes four times as long to read, not sixteen`, async (t) => {
    const counted = countCharacters(t);
    const costOf = async (text: string) => {
      const before = counted();
      try {
        await read(text);
      } catch {
        // A refusal costs as much as finding its reason.
      }
      return counted() - before;
    };
    for (const piece of PIECES) {
      for (const end of ["", "!", "\u00a0"]) {
        const of = (length: number) =>
          costOf(prefix + piece.repeat(Math.ceil(length / piece.length)) + end);
        const [once, fourfold] = [await of(LENGTH), await of(4 * LENGTH)];
        const bound = 5 * Math.max(once, LENGTH);
        assert.ok(fourfold <= bound, `${JSON.stringify(piece)}: ${once}, then ${fourfold}`);
      }
    }
  });
}
