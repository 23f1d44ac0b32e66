/** `plant-store import FILE`: creates the plants of a file of JSON lines. */
import { importPlants, openImportFile, PlantStore } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { enterFolder } from "../data-folder.ts";
import { DATA } from "../options.ts";
import { printLines, printMessage } from "../output.ts";
import { Progress } from "../progress.ts";

export const importCommand = defineCommand({
  name: "import",
  summary: "create the plants of a file of JSON lines; - reads standard input",
  arguments: [{ placeholder: "FILE", values: "files" }],
  options: { data: DATA },
  entersFolder: true,
  details: `Stop the server first. Plants that are stored already are counted and left, so an
import that was interrupted can be run again. Exit status 3 when a line was refused.`,
  async run([file = ""], { data = "" }) {
    const { text, bytes: total } =
      file === "-" ? { text: process.stdin, bytes: undefined } : await openImportFile(file);
    const store = await PlantStore.open(enterFolder(data), { command: "import" });
    const progress = new Progress("importing");
    try {
      const { created, replayed, refused } = await importPlants(store, text, {
        onRefused: (line, reason) => printMessage(`refused line ${line}: ${reason}`),
        onProgress: (done) => progress.update(done, total),
      }).finally(Progress.clear);
      await printLines([`created ${created}, already stored ${replayed}, refused ${refused}`]);
      return refused === 0 ? 0 : 3;
    } finally {
      await store.close();
    }
  },
});
