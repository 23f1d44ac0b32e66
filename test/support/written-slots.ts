/** How much an id index writes: each slot that it writes ends with one such call. */
import type { TestContext } from "node:test";

/** Returns a function that returns how many slots were written so far; counting stops when the test ends. */
export function watchSlots(t: TestContext): () => number {
  const { setUint8 } = DataView.prototype;
  let slots = 0;
  DataView.prototype.setUint8 = function (this: DataView, at: number, value: number) {
    slots++;
    setUint8.call(this, at, value);
  };
  t.after(() => {
    DataView.prototype.setUint8 = setUint8;
  });
  return () => slots;
}
