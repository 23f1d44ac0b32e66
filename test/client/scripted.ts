/** A client whose attempts end as a test wants. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { PlantClient, PlantStoreError } from "../../src/client.ts";

/** One attempt: a response, or a failure of the connection. */
export type Attempt = (() => Response | Promise<Response>) | Error;

export const respond = (status: number, body: string, headers = {}): Attempt => {
  return () => new Response(body, { status, headers });
};
export const FERN = { id: 7n, name: "Fern", tag: "indoor" };
export const OK = respond(200, '{"name":"Fern","tag":"indoor"}');
export const HTML = "<html><h1>502 Bad Gateway</h1></html>";
export const BROKEN = new TypeError("fetch failed");

/** A client whose attempts end like this, one after the other; the last one is repeated. */
export function scripted(attempts: readonly Attempt[], deadlineMs?: number) {
  const requests: (readonly [url: string, init: RequestInit])[] = [];
  const fetch: typeof globalThis.fetch = async (url, init = {}) => {
    const attempt = attempts[Math.min(requests.length, attempts.length - 1)];
    requests.push([String(url), init]);
    if (typeof attempt === "function") return attempt();
    throw attempt;
  };
  const options = { token: "t", fetch, ...(deadlineMs !== undefined && { deadlineMs }) };
  return { client: new PlantClient("http://plants.example/garden/", options), requests };
}

/** Has every wait end at once, and the limit of an attempt; returns how long each wait was to be. */
export function skipWaits(t: TestContext, random = 1): number[] {
  const waits: number[] = [];
  const original = setTimeout;
  t.mock.restoreAll();
  t.mock.method(Math, "random", () => random);
  t.mock.method(globalThis, "setTimeout", (work: () => void, ms: number) => {
    if (ms !== 10_000) waits.push(ms);
    return original(work, 0);
  });
  return waits;
}

/** Has the deadline of 30 s pass during the wait after so many attempts. */
export function passDeadline(t: TestContext, attempts: number): void {
  let [now, waits] = [0, 0];
  t.mock.method(performance, "now", () => now);
  t.mock.method(Math, "random", () => {
    if (++waits >= attempts) now = 30_000;
    return 0;
  });
}

/** An expectation of `assert.rejects`; `text` is a part of the message. */
export const isError = (code: string, number?: number, text = "", cause?: unknown) => {
  return (error: unknown) => {
    assert.ok(error instanceof PlantStoreError, String(error));
    assert.deepEqual([error.code, error.number], [code, number], error.message);
    assert.ok(error.message.includes(text), error.message);
    if (cause !== undefined) assert.equal(error.cause, cause);
    return true;
  };
};
