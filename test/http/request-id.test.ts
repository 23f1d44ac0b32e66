import assert from "node:assert/strict";
import { test } from "node:test";
import type { RequestMessage } from "../../src/index.ts";
import { Client } from "../support/client.ts";
import { encodeRequest } from "../support/contract.ts";
import { startService } from "../support/service.ts";
import { collectMessages } from "../support/watch.ts";

const OURS = /^[0-9a-f]{12}-[1-9][0-9]*$/;
const NAME = "x-request-id";

const KEPT: readonly [what: string, id: string][] = [
  ["one character", "a"],
  ["64 characters", "a".repeat(64)],
  ["a UUID", "0fbd3e2c-9f3b-4b9e-8f0e-6d7c5a4b3e21"],
  ["every punctuation there may be", "a.b_c~d+e/f=g:h@i-j"],
];

const REPLACED: readonly [what: string, id: string | readonly string[]][] = [
  ["65 characters", "a".repeat(65)],
  ["nothing in it", ""],
  ["a space", "a b"],
  ["a quote", 'a"b'],
  ["a backslash", "a\\b"],
  ["markup", "<b>"],
  ["a percent escape", "a%1b[31m"],
  ["a tab", "a\tb"],
  ["a byte beyond ASCII", "a\u0085b"],
  ["a second one beside it", ["a", "b"]],
];

for (const [what, id] of KEPT) {
  test(`a request id of ${what} is sent back and published`, async (t) => {
    const service = await startService(t);
    const messages = collectMessages<RequestMessage>(t, "plant-store:request");
    const client = await Client.connect(service.port);
    t.after(() => client.destroy());
    await client.send(encodeRequest(service, { headers: { "X-Request-Id": id } }));
    assert.equal((await client.next()).headers.get(NAME), id);
    assert.deepEqual(
      messages.map(({ requestId }) => requestId),
      [id],
    );
  });
}

for (const [what, id] of REPLACED) {
  test(`a request id with ${what} is replaced by a new one`, async (t) => {
    const service = await startService(t);
    const messages = collectMessages<RequestMessage>(t, "plant-store:request");
    const client = await Client.connect(service.port);
    t.after(() => client.destroy());
    await client.send(encodeRequest(service, { headers: { "X-Request-Id": id } }));
    const answered = (await client.next()).headers.get(NAME) ?? "";
    assert.match(answered, OURS);
    assert.equal(messages[0]?.requestId, answered);
  });
}

const REFUSED: readonly [what: string, bytes: string, status: number][] = [
  ["what is no HTTP", "nonsense\r\n\r\n", 400],
  ["no token", "POST /plants HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", 401],
  ["a large body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 999999\r\n\r\n", 401],
];

for (const [what, bytes, status] of REFUSED) {
  test(`the refusal of ${what} has a request id, too`, async (t) => {
    const service = await startService(t);
    const client = await Client.connect(service.port);
    t.after(() => client.destroy());
    await client.send(bytes);
    const answer = await client.next();
    assert.equal(answer.status, status);
    assert.match(answer.headers.get(NAME) ?? "", OURS);
  });
}

test("no two requests get the same id", async (t) => {
  const service = await startService(t);
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, at) => service.post(`{"id":${at},"name":"a"}`)),
  );
  assert.equal(new Set(answers.map(({ headers }) => headers.get(NAME))).size, 20);
});
