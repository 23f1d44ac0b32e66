import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { test } from "node:test";
import { publishWarning } from "../../src/core/channels.ts";

test("publishWarning() reaches the present subscribers of plant-store:warning", () => {
  const cause = new Error("disk");
  const messages: unknown[] = [];
  const listen = (message: unknown) => messages.push(message);
  publishWarning("before anyone listens");
  subscribe("plant-store:warning", listen);
  publishWarning("with a cause", cause);
  publishWarning("without one", undefined, "a-1");
  unsubscribe("plant-store:warning", listen);
  publishWarning("after the last one left");
  assert.deepEqual(messages, [
    { message: "with a cause", cause, requestId: undefined },
    { message: "without one", cause: undefined, requestId: "a-1" },
  ]);
});
