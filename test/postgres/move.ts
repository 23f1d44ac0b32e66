/**
 * `node --import tsx test/postgres/move.ts [--plants N]`: moves a million plants from a data directory into a database by the command
 * `import`, and by `export` back into a data directory, with ascending ids and with random ones. Sorted, the
 * lines must be equal at every step.
 */
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, openSync, writeSync } from "node:fs";
import path from "node:path";
import { parseArgs } from "node:util";
import { withFolder } from "../bench/support/machine.ts";
import { withCleanup } from "./cleanup.ts";
import { Cluster } from "./cluster.ts";
import { buildProgram, NEEDS_POSTGRES } from "./stores.ts";

const { values } = parseArgs({ options: { plants: { type: "string", default: "1000000" } } });
const PLANTS = Number(values.plants);
if (NEEDS_POSTGRES.skip !== undefined) throw new Error(NEEDS_POSTGRES.skip);

/** Orders of ids, with the bar for the import in plants a second. */
const ORDERS = [
  { name: "ascending", bar: 100_000, idOf: (at: number) => BigInt(at) },
  // An odd factor visits every number below 2^62 once.
  {
    name: "random",
    bar: 30_000,
    idOf: (at: number) => BigInt.asUintN(62, BigInt(at + 1) * 0x9e3779b97f4a7c15n),
  },
];

let isBroken = false;
await withFolder(undefined, (folder) =>
  withCleanup(async (cleanup) => {
    const server = await Cluster.start(cleanup);
    for (const order of ORDERS) await move(folder, server, order);
  }),
);
process.exit(isBroken ? 1 : 0);

async function move(
  folder: string,
  server: Cluster,
  { name, bar, idOf }: (typeof ORDERS)[number],
): Promise<void> {
  const program = buildProgram();
  const there = ["--database", server.url(name)];
  await server.createStore(name);
  const [given, start, back, data, last] = ["given", "start", "back", "data", "last"].map((word) =>
    path.join(folder, `${word} ${name}`),
  ) as [string, string, string, string, string];
  writePlants(given, idOf);
  const run = (words: readonly string[], output?: string) => {
    const begun = performance.now();
    const fd = output === undefined ? "ignore" : openSync(output, "w");
    execFileSync(process.execPath, [program, ...words], { stdio: ["ignore", fd, "inherit"] });
    if (typeof fd === "number") closeSync(fd);
    return (PLANTS / (performance.now() - begun)) * 1000;
  };
  run(["import", given, "--data", start]);
  const rate = run(["import", start, ...there]);
  const verdict = rate >= bar ? "kept" : "MISSED";
  show(`${name} ids into the database`, rate, `bar ${bar.toLocaleString("en-US")}: ${verdict}`);
  show(`${name} ids out of it`, run(["export", ...there], back));
  show(`${name} ids into a data directory`, run(["import", back, "--data", data]));
  run(["export", "--data", data], last);
  const hashes = [given, back, last].map(hashSorted);
  const isSame = new Set(hashes).size === 1;
  isBroken ||= !isSame;
  console.log(`${name} ids: sorted, the lines are ${isSame ? "the same" : "NOT THE SAME"}`);
}

function show(what: string, rate: number, rest = ""): void {
  console.log(`${what}: ${Math.round(rate).toLocaleString("en-US")} plants/s  ${rest}`);
}

function writePlants(file: string, idOf: (at: number) => bigint): void {
  const fd = openSync(file, "w");
  for (let at = 0; at < PLANTS; ) {
    let text = "";
    for (const end = Math.min(at + 10_000, PLANTS); at < end; at++) {
      text += `{"id":${idOf(at)},"name":"Monstera deliciosa","tag":"tropical"}\n`;
    }
    writeSync(fd, text);
  }
  closeSync(fd);
}

function hashSorted(file: string): string {
  const env = { ...process.env, LC_ALL: "C" };
  const sorted = execFileSync("sort", [file], { env, maxBuffer: 2 ** 31 });
  return createHash("sha256").update(sorted).digest("hex");
}
