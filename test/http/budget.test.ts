/** How memory is shared among clients. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Budget } from "../../src/http/budget.ts";

/** Whether there was room. */
function takes(budget: Budget, client: string, bytes: number): boolean {
  try {
    budget.take(client, bytes);
    return true;
  } catch {
    return false;
  }
}

test("a lone client gets half of a budget", () => {
  const budget = new Budget(100);
  assert.equal(takes(budget, "a", 30), true);
  assert.equal(takes(budget, "a", 21), false);
  assert.equal(takes(budget, "a", 20), true);
  assert.equal(takes(budget, "a", 1), false);
  budget.giveBack("a", 1);
  assert.equal(takes(budget, "a", 1), true);
});

test("whatever others do, a client that holds nothing gets half of what is free", () => {
  const step = fc.tuple(fc.constantFrom("a", "b", "c", ""), fc.nat({ max: 120 }), fc.boolean());
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      const budget = new Budget(1000);
      const held: [client: string, bytes: number][] = [];
      for (const [client, bytes, isTaking] of steps) {
        if (isTaking && takes(budget, client, bytes)) held.push([client, bytes]);
        else budget.giveBack(...(held.shift() ?? ["a", 0]));
      }
      const free = 1000 - held.reduce((sum, [, bytes]) => sum + bytes, 0);
      assert.ok(free >= 0);
      assert.equal(takes(budget, "other", Math.floor(free / 2)), true);
      budget.giveBack("other", Math.floor(free / 2));
      for (const [client, bytes] of held) budget.giveBack(client, bytes);
      assert.equal(takes(budget, "other", 500), true, "all was given back");
    }),
  );
});
