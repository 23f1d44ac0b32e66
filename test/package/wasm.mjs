/**
 * Writes `src/core/encoded-plant-wasm.ts`: the module that recognises encoded plants, assembled
 * from its text. It is kept in the repository, so that nothing else needs the assembler.
 */
import { readFileSync, writeFileSync } from "node:fs";
import openWabt from "wabt";

const NAME = "encoded-plant.wat";
const CORE = new URL("../../src/core/", import.meta.url);

const wabt = await openWabt();
const text = readFileSync(new URL(NAME, CORE), "utf8");
const { buffer } = wabt.parseWat(NAME, text).toBinary({});
const made = `/**
 * The module that \`${NAME}\` describes, in base64. Written by \`test/package/wasm.mjs\`:
 * a change belongs into the text, which no package holds.
 */
export const ENCODED_PLANT_WASM =
  "${Buffer.from(buffer).toString("base64")}";
`;
if (process.argv.includes("--print")) process.stdout.write(made);
else writeFileSync(new URL("encoded-plant-wasm.ts", CORE), made);
