/** What a process holds once its garbage is gone. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc") as () => void;

/** Bytes of objects, of buffers, and of long texts. */
export function usedBytes(): number {
  gc();
  gc(); // buffers are given back beside the first, and the second waits for that
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
