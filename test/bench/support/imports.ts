/** How fast the command `import` takes a file, and the same file again. */
import fs from "node:fs";
import path from "node:path";
import { generateLog } from "../generate.ts";
import { note } from "./machine.ts";
import { formatCount, formatSpread, spread } from "./numbers.ts";
import { runNode } from "./program.ts";
import { builtMain, ROOT } from "./targets.ts";

const LINES = 500_000;
const RUNS = 3;

/** One line, with the ratio of the rates; each run has a data directory of its own. */
export async function measureImports(folder: string): Promise<string> {
  const file = path.join(folder, "import.jsonl");
  const fd = fs.openSync(file, "wx");
  generateLog(fd, LINES);
  fs.closeSync(fd);
  const first: number[] = [];
  const ratios: number[] = [];
  for (let run = 1; run <= RUNS; run++) {
    note(`import ${run} of ${RUNS}`);
    const data = path.join(folder, `imported ${run}`);
    const once = await timeImport(file, data);
    first.push(LINES / once);
    ratios.push(once / (await timeImport(file, data)));
    fs.rmSync(data, { recursive: true });
  }
  const perSecond = formatCount(spread(first).median);
  return `import: ${perSecond} plants/s; the same file again / it: ${formatSpread(spread(ratios))}`;
}

/** In seconds, from the start of the process to its end. */
async function timeImport(file: string, data: string): Promise<number> {
  const start = performance.now();
  await runNode([builtMain(ROOT), "import", file, "--data", data]);
  return (performance.now() - start) / 1000;
}
