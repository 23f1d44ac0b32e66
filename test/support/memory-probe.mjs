/** Loaded into a server (`--import`): on SIGUSR2 it writes to a file how much memory is used without garbage. */
import { writeFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");

process.on("SIGUSR2", () => {
  gc();
  const { heapUsed, external } = process.memoryUsage();
  writeFileSync(process.env.MEMORY_FILE, `${heapUsed + external}\n`);
});
