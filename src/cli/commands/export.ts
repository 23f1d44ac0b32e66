/** `plant-store export`: the lines of the log, each one checked, also beside a running server. */
import { exportLines } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { DATA } from "../options.ts";
import { printBytes } from "../output.ts";

export const exportCommand = defineCommand({
  name: "export",
  summary: "print the lines of the log as they are, every one checked",
  arguments: [],
  outputUse: "listing",
  options: { data: DATA },
  details: "What it prints can be imported: plant-store export > plants.jsonl",
  async run(_, { data = "" }) {
    await printBytes(exportLines(data));
    return 0;
  },
});
