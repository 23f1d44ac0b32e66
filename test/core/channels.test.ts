import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { test } from "node:test";
import { publishWarning, subscribe as subscribeTyped } from "../../src/core/channels.ts";

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

test("subscribe() receives the messages of its channel until it is ended, each subscription by itself", () => {
  const messages: string[] = [];
  const listen = ({ message }: { message: string }) => void messages.push(message);
  const ends = [1, 2].map(() => subscribeTyped("plant-store:warning", listen));
  publishWarning("for both");
  ends[0]?.();
  publishWarning("for one");
  ends[1]?.();
  publishWarning("for nobody");
  assert.deepEqual(messages, ["for both", "for both", "for one"]);
});
