import assert from "node:assert/strict";
import { test } from "node:test";
import { Shrinker } from "./shrink.ts";

const never = () => false;

test("a plan is shortened to the two steps that fail together, and all else is switched off", async () => {
  const steps = Array.from({ length: 40 }, (_, n) => ({ kind: n % 7 === 3 ? "bad" : "good", n }));
  const plan = {
    rounds: [
      { steps, isHarsh: true, rate: 9 },
      { steps: [], isHarsh: true, rate: 1 },
    ],
  };
  const fails = async ({ rounds }: typeof plan) =>
    rounds.flatMap(({ steps }) => steps).filter(({ kind }) => kind === "bad").length >= 2;
  const shortened = await new Shrinker(plan, fails, never).run();
  const bad = { kind: "bad", n: 0 };
  assert.deepEqual(shortened, { rounds: [{ steps: [bad, bad], isHarsh: false, rate: 0 }] });
});

test("a plan that makes no sense is not kept, and the plan that was given is left as it was", async () => {
  const plan = { steps: [1, 2, 3, 4] };
  const fails = async ({ steps }: typeof plan) => steps[0] === 1 && steps.includes(4);
  const shortened = await new Shrinker(plan, fails, never).run();
  assert.deepEqual(shortened, { steps: [1, 4] });
  assert.deepEqual(plan, { steps: [1, 2, 3, 4] });
});

test("a plan is shortened until the time is over", async () => {
  let left = 3;
  const shrinker = new Shrinker(
    [1, 2, 3, 4, 5, 6],
    async () => true,
    () => left-- <= 0,
  );
  await shrinker.run();
  assert.ok(shrinker.attempts <= 3);
});
