/** `plant-store print openapi|schema|systemd-unit`: documents for other programs, ready to use. */
import { readFileSync } from "node:fs";
import { getAsset, isSea } from "node:sea";
import { OPENAPI } from "../index.ts";
import { printSchema } from "../postgres/index.ts";
import { defineCommand } from "./command.ts";
import { print } from "./output.ts";

const printOpenapi = defineCommand({
  name: "print openapi",
  summary: "print the OpenAPI 3.1.0 document",
  options: {},
  run: () => print(`${JSON.stringify(OPENAPI, undefined, 2)}\n`),
});

const printDatabaseSchema = defineCommand({
  name: "print schema",
  summary: "print the SQL for a database",
  options: {
    role: {
      placeholder: "NAME",
      help: "the role that the servers log in as",
      defaultText: "plant_store",
      expected: 'a name without quotes, "$", "\\" and control characters',
      parse: (name: string) => printSchema(name) && name,
    },
  },
  details: `Run the SQL once, as the owner of the database, after the role was created:
  plant-store print schema > schema.sql && psql DATABASE -v ON_ERROR_STOP=1 -f schema.sql`,
  run: (_, { role }) => print(printSchema(role)),
});

const UNIT = "plant-store.service";

const printSystemdUnit = defineCommand({
  name: "print systemd-unit",
  summary: "print a hardened service for systemd",
  options: {},
  details: `The service starts the program that printed it, as the user plant-store:
  useradd --system plant-store
  plant-store print systemd-unit > /etc/systemd/system/${UNIT}
  systemctl daemon-reload && systemctl enable --now plant-store`,
  run() {
    const words = isSea() ? [process.execPath] : [process.execPath, process.argv[1]];
    const program = words.map((word) => `"${word}"`).join(" ");
    return print(readUnit().replace("/usr/local/bin/plant-store", () => program));
  },
});

/** The unit as the documentation has it; an executable carries it as an asset. */
function readUnit(): string {
  if (isSea()) return getAsset(UNIT, "utf8");
  return readFileSync(new URL(`../../docs/deploy/${UNIT}`, import.meta.url), "utf8");
}

/** In the order of the help. */
export const commands = [printOpenapi, printDatabaseSchema, printSystemdUnit];
