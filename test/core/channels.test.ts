import assert from "node:assert/strict";
import { test } from "node:test";
import { publishWarning, subscribe, type WarningMessage } from "../../src/core/channels.ts";

test("subscribe() receives the messages of its channel until it is ended, each subscription by itself", () => {
  const cause = new Error("disk");
  const messages: WarningMessage[] = [];
  const ends = [1, 2].map(() => subscribe("plant-store:warning", (each) => messages.push(each)));
  publishWarning("for both", cause);
  ends[0]?.();
  publishWarning("for one", undefined, "a-1");
  ends[1]?.();
  publishWarning("for nobody");
  const both = { message: "for both", cause, requestId: undefined };
  assert.deepEqual(messages, [
    both,
    both,
    { message: "for one", cause: undefined, requestId: "a-1" },
  ]);
});
