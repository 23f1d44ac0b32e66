/** `plant-store print openapi`: the description of the interface, for any OpenAPI tool. */
import { OPENAPI } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { printLines } from "../output.ts";

export const printOpenapi = defineCommand({
  name: "print openapi",
  summary: "print the OpenAPI 3.1.0 document of the interface",
  arguments: [],
  options: {},
  async run() {
    await printLines(JSON.stringify(OPENAPI, undefined, 2).split("\n"));
    return 0;
  },
});
