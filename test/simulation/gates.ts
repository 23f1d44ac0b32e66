/**
 * Gives back the places in gates that a dead process held: in the real world its memory is gone.
 */
import { Gate } from "../../src/core/gate.ts";

/** How many tasks have a place, or wait for one, by gate. Each of them leaves once. */
const tasks = new Map<Gate, number>();
const { enter, pass, leave } = Gate.prototype;
let isPassing = false;

Gate.prototype.enter = function (this: Gate, work, client) {
  if (!isPassing) tasks.set(this, (tasks.get(this) ?? 0) + 1);
  enter.call(this, work, client);
};

Gate.prototype.pass = function <T>(
  this: Gate,
  work: () => Promise<T>,
  client?: string,
): Promise<T> {
  tasks.set(this, (tasks.get(this) ?? 0) + 1);
  isPassing = true; // it may enter in the same turn
  try {
    return pass.call(this, work, client) as Promise<T>;
  } finally {
    isPassing = false;
  }
};

Gate.prototype.leave = function (this: Gate) {
  tasks.set(this, (tasks.get(this) ?? 0) - 1);
  leave.call(this);
};

/** Call it after the last microtask of the dead process. */
export function emptyGates(): void {
  for (const gate of tasks.keys()) while ((tasks.get(gate) ?? 0) > 0) gate.leave();
}
