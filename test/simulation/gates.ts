/**
 * Gives back the places in gates that a dead process held: in the real world its memory is gone.
 */
import { Gate } from "../../src/core/gate.ts";

/** How many tasks have a place, or wait for one, by gate. Each of them leaves once. */
const tasks = new Map<Gate, number>();
const { enter, pass, leave } = Gate.prototype;
let isPassing = false;
/** While the last microtasks of a dead process run. */
let isOver = false;

Gate.prototype.enter = function (this: Gate, work, client) {
  if (isOver) return;
  if (!isPassing) tasks.set(this, (tasks.get(this) ?? 0) + 1);
  enter.call(this, work, client);
};

Gate.prototype.pass = function <T>(this: Gate, work: () => Promise<T>, client?: string) {
  if (isOver) return new Promise<T>(() => {});
  tasks.set(this, (tasks.get(this) ?? 0) + 1);
  isPassing = true; // it may enter in the same turn
  try {
    return pass.call(this, work, client) as Promise<T>;
  } finally {
    isPassing = false;
  }
};

Gate.prototype.leave = function (this: Gate) {
  if (isOver) return;
  tasks.set(this, (tasks.get(this) ?? 0) - 1);
  leave.call(this);
};

/** Empties all gates, while the microtasks of the dead process run out. */
export async function emptyGates(runOut: () => Promise<void>): Promise<void> {
  isOver = true;
  for (const [gate, count] of tasks) for (let left = count; left > 0; left--) leave.call(gate);
  await runOut();
  tasks.clear();
  isOver = false;
}
