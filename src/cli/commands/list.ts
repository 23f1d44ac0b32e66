/** `plant-store list`: every plant, oldest first, also beside a running server. */
import { encodeNewPlant, readPlants } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { DATA } from "../options.ts";
import { printLines } from "../output.ts";

export const list = defineCommand({
  name: "list",
  summary: "print every plant as a line of JSON, oldest first",
  arguments: [],
  outputUse: "listing",
  options: { data: DATA },
  async run(_, { data = "" }) {
    for await (const plant of readPlants(data)) await printLines([encodeNewPlant(plant)]);
    return 0;
  },
});
