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

test("a client gets as much as stays free, so a new one always gets half of that, whatever others do", () => {
  const step = fc.tuple(fc.constantFrom("a", "b", "c", ""), fc.nat({ max: 120 }), fc.boolean());
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 60 }), (steps) => {
      const budget = new Budget(1000);
      const held: [client: string, bytes: number][] = [];
      const sumOf = (...names: string[]) =>
        held.reduce((sum, [name, bytes]) => sum + (names.includes(name) ? bytes : 0), 0);
      const free = () => 1000 - sumOf("a", "b", "c", "");
      for (const [client, bytes, isTaking] of steps) {
        const most = Math.floor((free() - sumOf(client)) / 2);
        assert.equal(takes(budget, client, Math.max(0, most) + 1), false, "more than stays free");
        if (isTaking && takes(budget, client, bytes)) held.push([client, bytes]);
        else budget.giveBack(...(held.shift() ?? ["a", 0]));
      }
      const half = Math.floor(free() / 2);
      assert.equal(takes(budget, "other", half), true);
      budget.giveBack("other", half);
      for (const [client, bytes] of held) budget.giveBack(client, bytes);
      assert.equal(takes(budget, "other", 500), true, "all was given back");
    }),
  );
});
