/** How memory is shared among clients. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Budget, Lease, NO_TOKEN } from "../../src/http/body.ts";

test("a client that is alone is lent half of a budget", () => {
  const budget = new Budget(100);
  const [first, second] = [new Lease(budget, "a"), new Lease(budget, "a")];
  assert.equal(first.hold(30), true);
  assert.equal(second.hold(21), false);
  assert.equal(second.hold(20), true);
  assert.equal(second.hold(21), false);
  assert.equal(first.hold(29), true, "less is always accepted");
  assert.equal(second.hold(21), true);
});

test("two clients that want all of a budget share it, and a third still finds room", () => {
  const budget = new Budget(99);
  const held = new Map<string, number>();
  const leases = ["a", "b"].map((client) => ({ client, lease: new Lease(budget, client) }));
  for (let amount = 1; amount <= 99; amount++) {
    for (const { client, lease } of leases) if (lease.hold(amount)) held.set(client, amount);
  }
  assert.deepEqual([...held.values()], [33, 33]);
  assert.equal(new Lease(budget, NO_TOKEN).hold(16), true);
});

test("a need for more than half of a budget finds room only while nothing else is lent, and leaves some", () => {
  const budget = new Budget(100);
  const lease = new Lease(budget, "a");
  assert.equal(lease.hold(250), true);
  assert.equal(lease.hold(300), true);
  assert.equal(new Lease(budget, "a").hold(1), false);
  const other = new Lease(budget, "b");
  assert.equal(other.hold(26), false);
  assert.equal(other.hold(25), true);
  lease.hold(0);
  assert.equal(new Lease(budget, "a").hold(250), false);
  other.hold(0);
  assert.equal(lease.hold(250), true);
});

test("whatever clients do, one that holds nothing is lent half of what is free", () => {
  const CLIENTS = ["a", "b", "c", NO_TOKEN];
  const steps = fc.array(fc.tuple(fc.nat({ max: 7 }), fc.nat({ max: 120 })), {
    minLength: 1,
    maxLength: 60,
  });
  fc.assert(
    fc.property(steps, (done) => {
      const budget = new Budget(1000);
      const amounts = Array<number>(8).fill(0);
      const leases = amounts.map((_, at) => new Lease(budget, CLIENTS[at % 4] as string));
      for (const [at, amount] of done) if (leases[at]?.hold(amount)) amounts[at] = amount;
      const free = 1000 - amounts.reduce((sum, amount) => sum + amount);
      assert.ok(free >= 0);
      const other = new Lease(budget, "other");
      assert.equal(other.hold(Math.floor(free / 2)), true);
      for (const lease of [...leases, other]) lease.hold(0);
      assert.equal(new Lease(budget, "other").hold(500), true, "all was given back");
    }),
  );
});
