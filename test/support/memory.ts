/** The memory of a process without garbage. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;

/** The bytes of objects, buffers and long texts. */
export function usedBytes(): number {
  gc();
  gc(); // the first collection frees buffers in a thread, and the second waits for that
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
