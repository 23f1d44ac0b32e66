/** `plant-store list`: every plant once, oldest first, also beside a running server. */
import { listLogLines } from "../../index.ts";
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
    for await (const bytes of listLogLines(data)) {
      await printLines(bytes.toString().trimEnd().split("\n"));
    }
    return 0;
  },
});
