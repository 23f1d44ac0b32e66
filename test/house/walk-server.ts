/**
 * The server that test/house/walks watches, from its sources, in a process of its own:
 *
 *   node --import tsx test/house/walk-server.ts serve …
 *
 * Its parent sends how many looks at the tokens are to begin, perhaps none, and then gets the functions
 * of `src` that were called since the last answer. Nothing else that the server repeats runs.
 */
import inspector, { type Profiler } from "node:inspector";
import { findSourceMap } from "node:module";
import timers from "node:timers";
import { LOOK_INTERVAL_MS } from "../../src/core/token.ts";
import type { Called } from "./walks.ts";

const SRC = new URL("../../src/", import.meta.url).href;

let looksLeft = 0;
const { setInterval } = timers;
const setOthers = (run: () => void, ms: number) =>
  setInterval(() => {
    if (ms !== LOOK_INTERVAL_MS.folder || looksLeft === 0) return;
    run();
    if (--looksLeft === 0) report();
  }, ms);
// The sources are loaded later, and so use these.
timers.setInterval = setOthers as typeof setInterval;
globalThis.setInterval = timers.setInterval;

const session = new inspector.Session();
session.connect();
session.post("Debugger.enable"); // for the texts of the files
session.post("Profiler.enable");
// Precise: no call is lost because a function was optimized or inlined. Not detailed: which parts of a
// function ran does not matter.
session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });

process.on("message", (looks: number) => {
  looksLeft = looks;
  if (looks === 0) report();
});

function report(): void {
  session.post("Profiler.takePreciseCoverage", (_error, { result }) => {
    process.send?.(result.filter(({ url }) => url.startsWith(SRC)).flatMap(calledIn));
  });
}

function calledIn({ scriptId, url, functions }: Profiler.ScriptCoverage): Called[] {
  // The loader adds `__name`.
  const called = functions.filter(
    ({ functionName, ranges: [range] }) => range?.count && functionName !== "__name",
  );
  return called.map(({ functionName: name, ranges: [range] }) => {
    const at = range?.startOffset ?? 0;
    return { file: url.slice(SRC.length), line: lineOf(scriptId, url, at), name, at };
  });
}

/** Known lines, by file and offset. */
const lines = new Map<string, number>();

/** The line in the source, from 1, of a place in the text that the loader has made of it. */
function lineOf(scriptId: string, url: string, at: number): number {
  const known = lines.get(`${url}:${at}`);
  if (known !== undefined) return known;
  let line = 0;
  session.post("Debugger.getScriptSource", { scriptId }, (_error, { scriptSource }) => {
    const before = scriptSource.slice(0, at).split("\n");
    const entry = findSourceMap(url)?.findEntry(before.length - 1, before.at(-1)?.length ?? 0);
    if (entry !== undefined && "originalLine" in entry) line = entry.originalLine + 1;
  });
  lines.set(`${url}:${at}`, line);
  return line;
}

await import("../../src/cli/main.ts");
