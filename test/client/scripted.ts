/** A client whose attempts end as a test wants. */
import assert from "node:assert/strict";
import type { TestContext } from "node:test";
import { PlantClient, PlantStoreError } from "../../src/client.ts";

/** One attempt: a response, or a failure of the connection. */
type Attempt = (() => Response | Promise<Response>) | Error;

export const respond = (status: number, body: string, headers = {}) => {
  return () => new Response(body, { status, headers });
};
export const STORED = { name: "Fern", tag: "indoor" };
export const FERN = { id: 7n, ...STORED };
export const OK = respond(200, JSON.stringify(STORED));
export const BROKEN = new TypeError("fetch failed");

/** A client whose attempts end like this, one after the other; the last one is repeated. */
export function scripted(attempts: readonly Attempt[], deadlineMs = 30_000) {
  const requests: (readonly [url: string, init: RequestInit])[] = [];
  const fetch: typeof globalThis.fetch = async (url, init = {}) => {
    const attempt = attempts[Math.min(requests.length, attempts.length - 1)];
    requests.push([String(url), init]);
    if (typeof attempt === "function") return attempt();
    throw attempt;
  };
  const url = "http://plants.example/garden/";
  return { client: new PlantClient(url, { token: "t", fetch, deadlineMs }), requests };
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
