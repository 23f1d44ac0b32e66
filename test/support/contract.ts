/** Exact requests, and checks of their responses. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { Client } from "./client.ts";
import type { RawAnswer } from "./raw.ts";
import { errorNumber, type Service } from "./service.ts";

export interface RequestParts {
  readonly method?: string;
  readonly target?: string;
  readonly version?: string;
  /** Replaces or adds a header; an array gives one line each, `undefined` leaves it out. */
  readonly headers?: Readonly<Record<string, string | readonly string[] | undefined>>;
  /** Sent unchanged: see `chunked`. */
  readonly body?: string | Buffer;
}

/** The server of the requests, and a token that it accepts. */
export type Target = Pick<Service, "url" | "port" | "token">;

/** A whole request: a create with the valid token, with the parts that `parts` replaces. */
export function encodeRequest({ token }: Pick<Target, "token">, parts: RequestParts = {}): Buffer {
  const { method = "POST", target = "/plants", version = "HTTP/1.1", body = "" } = parts;
  const bytes = Buffer.from(body);
  const isChunked = parts.headers?.["Transfer-Encoding"] !== undefined;
  const headers = {
    Host: "localhost",
    Authorization: `Bearer ${token}`,
    "Content-Type": "application/json",
    "Content-Length": isChunked ? undefined : String(bytes.length),
    ...parts.headers,
  };
  const lines = Object.entries(headers).flatMap(([name, value = []]) =>
    [value].flat().map((text) => `${name}: ${text}\r\n`),
  );
  const head = `${method} ${target} ${version}\r\n${lines.join("")}\r\n`;
  return Buffer.concat([Buffer.from(head, "latin1"), bytes]);
}

/** The parts as chunks of the chunked coding, followed by the last chunk. */
export function chunked(...parts: readonly (string | Buffer)[]): Buffer {
  const chunks = parts.map((part) => {
    const size = Buffer.byteLength(part).toString(16);
    return [Buffer.from(`${size}\r\n`), Buffer.from(part), Buffer.from("\r\n")];
  });
  return Buffer.concat([...chunks.flat(), Buffer.from("0\r\n\r\n")]);
}

/** Asserts that the answer is a 200 with exactly these members. */
export function assertPlant(
  { status, text }: Pick<RawAnswer, "status" | "text">,
  plant: { name: string; tag?: string },
): void {
  assert.equal(status, 200, text.slice(0, 200));
  assert.deepEqual(JSON.parse(text), plant);
}

/** Asserts that the answer is this failure, and returns its message. */
export function assertError(answer: Pick<RawAnswer, "status" | "text">, error: number): string {
  assert.equal(errorNumber(answer), error, answer.text.slice(0, 200));
  assert.equal(answer.status, Math.floor(error / 100));
  return JSON.parse(answer.text).message;
}

/** A short plant; the line that the store writes for it is also its body. */
export function plantBody(id: number): string {
  return `{"id":${id},"name":"plant ${id}"}`;
}

/** `200`, or the number of the error. */
export function resultOf(answer: Pick<RawAnswer, "status" | "text">): number {
  return answer.status === 200 ? 200 : errorNumber(answer);
}

/** Begins a create that stays under way, and so holds room. @returns sends the rest, and resolves with the answer. */
export async function holdRoom(t: TestContext, target: Target): Promise<() => Promise<RawAnswer>> {
  const body = '{"id":1000000,"name":"held"}';
  const request = encodeRequest(target, { body, headers: { Expect: "100-continue" } });
  const client = await Client.connect(target.port);
  t.after(() => client.destroy());
  await client.send(request.subarray(0, -body.length));
  assert.equal((await client.next()).status, 100);
  await client.send(body.slice(0, 10));
  return async () => {
    await client.send(body.slice(10));
    return client.next();
  };
}
