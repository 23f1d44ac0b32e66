/**
 * The tests on every supported version of Node.
 *
 *   node --import tsx test/matrix/run.ts
 *   node --import tsx test/matrix/run.ts --only 22,24 test/core/int64.test.ts test/http/*.test.ts
 *
 * `--fresh` looks for newer versions than those that an earlier run installed. Prints one line a
 * Node, and what failed; the status is 1 then.
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { installNode } from "../support/nodes.ts";

/** Every major version that `engines` in package.json allows and that has long-term support. */
const MAJORS = ["20", "22", "24", "26"];
const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.join(HERE, "../..");

interface Result {
  readonly counts: Readonly<Record<"pass" | "fail" | "cancelled" | "skipped", number>>;
  readonly failures: readonly string[];
  readonly seconds: number;
  readonly status: number | null;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: MAJORS.join(",") },
    fresh: { type: "boolean", default: false },
  },
});
const files = positionals.length > 0 ? positionals : findTests();
for (const major of values.only.split(",")) {
  if (!MAJORS.includes(major)) throw new Error(`expected --only ${MAJORS.join(",")}, got ${major}`);
  const node = installNode(major, values.fresh);
  const version = spawnSync(node, ["--version"], { encoding: "utf8" }).stdout.trim();
  const result = await runTests(node);
  process.stdout.write(`${describe(version, result)}\n`);
  if (result.status !== 0) process.exitCode = 1;
}

/** The same files as `npm test`. */
function findTests(): string[] {
  return fs
    .readdirSync(path.join(ROOT, "test"), { recursive: true, encoding: "utf8" })
    .filter((file) => /(?<!\.installed)\.test\.ts$/.test(file) && !file.includes("node_modules"))
    .map((file) => path.join("test", file))
    .sort();
}

async function runTests(node: string): Promise<Result> {
  const begin = performance.now();
  const words = ["--import", "tsx", "--test", "--test-reporter=tap", ...files];
  // Programs that a test starts as `node` are this Node, too.
  const env = { ...process.env, PATH: `${path.dirname(node)}${path.delimiter}${process.env.PATH}` };
  const child = spawn(node, words, { cwd: ROOT, env, stdio: ["ignore", "pipe", "inherit"] });
  let report = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    report += text;
  });
  const [status] = (await once(child, "close")) as [number | null];
  const count = (what: string) =>
    Number(new RegExp(`^# ${what} (\\d+)$`, "m").exec(report)?.[1] ?? Number.NaN);
  return {
    counts: {
      pass: count("pass"),
      fail: count("fail"),
      cancelled: count("cancelled"),
      skipped: count("skipped"),
    },
    failures: findFailures(report),
    seconds: (performance.now() - begin) / 1000,
    status,
  };
}

/** The tests that failed, each with the lines below it that give the reason. */
function findFailures(report: string): string[] {
  const reasons = /^( *)not ok \d+ - (.*)\n((?:\1 +.*\n)*)/gm;
  return [...report.matchAll(reasons)].flatMap(([, , name = "", below = ""]) => {
    if (/failureType: '(subtestsFailed|cancelledByParent)'/.test(below)) return [];
    const place = /location: '(.*)'/.exec(below)?.[1] ?? "";
    const error = /error: (?:'(.*)'|"(.*)"|\|-\n *(.*))/.exec(below)?.slice(1).join("") ?? "";
    return [`  ${name}\n    ${place.replace(ROOT, "")}: ${error}`];
  });
}

function describe(version: string, { counts, failures, seconds }: Result): string {
  const { pass, fail, cancelled, skipped } = counts;
  const line = `Node ${version.padEnd(9)} ${pass} passed, ${fail + cancelled} failed, ${skipped} skipped, ${seconds.toFixed(0)} s`;
  return [line, ...failures].join("\n");
}
