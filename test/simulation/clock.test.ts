/** The clock of a simulation. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SimulatedClock } from "./clock.ts";
import { Random } from "./random.ts";

function newClock(seed = "a"): SimulatedClock {
  return new SimulatedClock(new Random(seed));
}

test("timers run at their time, and each sees the time it was due", async () => {
  const clock = newClock();
  const begin = clock.steadyMs();
  const seen: [string, number][] = [];
  const note = (name: string) => () => seen.push([name, clock.steadyMs() - begin]);
  await clock.run(
    new Promise<void>((resolve) => {
      clock.setTimeout(resolve, 100);
      clock.setTimeout(() => {
        note("second")();
        clock.setTimeout(note("chained"), 5);
      }, 20);
      clock.setTimeout(note("first"), 10);
      const repeated = clock.setInterval(() => {
        note("repeated")();
        if (clock.steadyMs() - begin >= 60) clock.clearInterval(repeated);
      }, 30);
      clock.clearTimeout(clock.setTimeout(note("cleared"), 15));
      const renewed = clock.setTimeout(note("renewed"), 40);
      clock.setTimeout(() => renewed.refresh(), 35);
    }),
  );
  assert.deepEqual(seen, [
    ["first", 10],
    ["second", 20],
    ["chained", 25],
    ["repeated", 30],
    ["repeated", 60],
    ["renewed", 75],
  ]);
});

test("every microtask runs before the next event", async () => {
  const clock = newClock();
  const seen: string[] = [];
  await clock.run(
    new Promise<void>((resolve) => {
      clock.after(1, async () => {
        for (let turns = 0; turns < 20; turns++) await undefined;
        process.nextTick(() => queueMicrotask(() => seen.push("microtask")));
      });
      clock.after(1.001, () => {
        seen.push("event");
        resolve();
      });
    }),
  );
  assert.deepEqual(seen, ["microtask", "event"]);
});

test("turns keep their order, and what is due at one time has none", async () => {
  const orders = new Set<string>();
  for (let seed = 0; seed < 20; seed++) {
    const clock = newClock(`${seed}`);
    let [turns, timers] = ["", ""];
    await clock.run(
      new Promise<void>((resolve) => {
        for (const name of ["a", "b", "c"]) {
          clock.setImmediate(() => {
            turns += name;
          });
          clock.setTimeout(() => {
            timers += name;
          }, 5);
        }
        clock.setTimeout(resolve, 6);
      }),
    );
    assert.equal(turns, "abc");
    orders.add(timers);
  }
  assert.equal(orders.size, 6);
});

test("a loop that waits for a timer by turns comes to an end", async () => {
  const clock = newClock();
  let isDue = false;
  clock.setTimeout(() => {
    isDue = true;
  }, 20);
  await clock.run(
    (async () => {
      while (!isDue) await new Promise<void>((resolve) => clock.setImmediate(resolve));
    })(),
  );
});

test("a world in which nothing can happen any more is reported, and so is a loop without an end", async () => {
  const clock = newClock();
  await assert.rejects(clock.run(new Promise(() => {})), /no event is left/);
  clock.setInterval(() => {}, 1);
  await assert.rejects(clock.run(new Promise(() => {}), 1000), /more than 1000 events/);
  await assert.rejects(clock.run(Promise.reject(new Error("its own"))), /its own/);
});

test("what a dead world has begun never happens", async () => {
  const clock = newClock();
  let calls = 0;
  clock.setInterval(() => calls++, 1);
  void Promise.resolve().then(() => clock.setTimeout(() => calls++, 1));
  await clock.endWorld();
  await clock.run(new Promise<void>((resolve) => clock.setTimeout(resolve, 10)));
  assert.equal(calls, 0);
});

test("chance depends on seed and name alone", () => {
  const random = new Random("seed");
  const before = random.fork("name").bytes(8);
  random.next();
  assert.deepEqual(random.fork("name").bytes(8), before);
  assert.notDeepEqual(random.fork("other").bytes(8), before);
  assert.notDeepEqual(new Random("seeds").fork("name").bytes(8), before);
});
