/** `plant-store get ID`: one plant, also beside a running server. */
import { parseInt64 } from "../../core/int64.ts";
import { encodeNewPlant } from "../../core/plant.ts";
import { readPlants } from "../../index.ts";
import { defineCommand, UsageError } from "../command.ts";
import { DATA } from "../options.ts";
import { printLines, printMessage } from "../output.ts";

export const get = defineCommand({
  name: "get",
  summary: "print the plant with this id as a line of JSON",
  arguments: [{ placeholder: "ID" }],
  options: { data: DATA },
  async run([text = ""], { data = "" }) {
    const id = parseInt64(text);
    if (id === undefined) throw new UsageError(`get: expected an int64 as ID, got "${text}"`);
    for await (const plant of readPlants(data)) {
      if (plant.id !== id) continue;
      await printLines([encodeNewPlant(plant)]);
      return 0;
    }
    printMessage(`no plant has the id ${id}`);
    return 1;
  },
});
