/** `plant-store import FILE`: creates the plants of a file of JSON lines. */
import { createReadStream, statSync } from "node:fs";
import { importPlants, PlantStore } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { DATA } from "../options.ts";
import { printLines, printMessage } from "../output.ts";
import { Progress } from "../progress.ts";

/** Large reads make large batches. */
const READ_BYTES = 1024 * 1024;

export const importCommand = defineCommand({
  name: "import",
  summary: "create the plants of a file of JSON lines; - reads standard input",
  arguments: ["FILE"],
  options: { data: DATA },
  details: `Stop the server first. Plants that are stored already are counted and left, so an
import that was interrupted can be run again. Exit status 1 when a line was refused.`,
  async run([file = ""], { data = "" }) {
    const { text, total } = openText(file);
    const store = await PlantStore.open(data, { command: "import" });
    const progress = new Progress("importing");
    try {
      const { created, replayed, refused } = await importPlants(store, text, {
        onRefused: (line, reason) => {
          progress.clear();
          printMessage(`refused line ${line}: ${reason}`);
        },
        onProgress: (bytes) => progress.update(bytes, total),
      }).finally(() => progress.clear());
      await printLines([`created ${created}, already stored ${replayed}, refused ${refused}`]);
      return refused === 0 ? 0 : 1;
    } finally {
      await store.close();
    }
  },
});

interface Text {
  readonly text: AsyncIterable<Buffer>;
  /** Its length in bytes, where that is known. */
  readonly total: number | undefined;
}

/** @throws when there is no such file, before anything else is done. */
function openText(file: string): Text {
  if (file === "-") return { text: process.stdin, total: undefined };
  const stat = statSync(file);
  return {
    text: createReadStream(file, { highWaterMark: READ_BYTES }),
    total: stat.isFile() ? stat.size : undefined,
  };
}
