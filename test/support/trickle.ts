/** A client that is still sending a request head while the server drains. */
import type { TestContext } from "node:test";
import { Connection } from "../../src/http/connections.ts";
import type { Client } from "./client.ts";
import { until } from "./watch.ts";

/**
 * Sends the rest of a request, from byte 40 on: first four single bytes, each followed by a wait until the
 * draining server has looked at the connection, then all others.
 */
export async function trickle(t: TestContext, client: Client, request: Buffer): Promise<void> {
  const looks = t.mock.method(Connection.prototype, "look");
  for (let at = 40; at < 44; at++) {
    await client.send(request.subarray(at, at + 1));
    const seen = looks.mock.callCount();
    await until("the drain looks again", () => looks.mock.callCount() > seen);
  }
  await client.send(request.subarray(44));
}
