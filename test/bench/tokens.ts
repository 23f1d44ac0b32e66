/**
 * The cost of a token log that has grown: the first read, a look at one appended
 * event, the longest time in which the event loop did nothing else, and `token
 * list`. Almost all of its tokens are dead, because the log is never rewritten.
 *
 *   npm run bench -- tokens
 */
import { randomBytes } from "node:crypto";
import { appendFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { TokenRegistry } from "../../src/index.ts";
import { describeMachine, withFolder } from "./support/machine.ts";
import { formatRound, formatSpread, spread } from "./support/numbers.ts";
import { positive, positives, readOptions } from "./support/options.ts";
import { runNode } from "./support/program.ts";
import { formatTable } from "./support/table.ts";

const options = readOptions({
  tokens: "dead tokens in the log (1000,10000,100000)",
  looks: "looks, each at one event more (20)",
  dir: "where to make the data directories (the system's temporary folder)",
});

const MAIN = fileURLToPath(new URL("../../dist/cli/main.js", import.meta.url));
const HEAD = ["dead tokens", "first read, ms", "a look, ms", "longest gap, ms", "token list, ms"];
const NOW = new Date().toISOString();

await withFolder(options.dir, async (folder) => {
  process.stdout.write(`${describeMachine(folder)}\n\n`);
  const rows: string[][] = [];
  for (const tokens of positives(options.tokens, [1000, 10_000, 100_000])) {
    rows.push([formatRound(tokens), ...(await measure(folder, tokens))]);
  }
  process.stdout.write(`${formatTable(HEAD, rows)}\n`);
});

async function measure(folder: string, tokens: number): Promise<string[]> {
  const log = path.join(folder, "tokens.jsonl");
  writeFileSync(log, Array.from({ length: tokens }, deadToken).join(""), { mode: 0o600 });
  const gaps = watchGaps();
  const [firstMs, registry] = await timed(() => TokenRegistry.open(folder));
  const looks: number[] = [];
  for (let look = 0; look < positive(options.looks, 20); look++) {
    appendFileSync(log, created(`live-${look}`));
    const [ms] = await timed(() => registry.refresh());
    looks.push(ms);
  }
  const gapMs = gaps.stop();
  registry.close();
  const [listMs] = await timed(() => runNode([MAIN, "token", "list", "--data", folder]));
  return [firstMs.toFixed(0), formatSpread(spread(looks), 1), gapMs.toFixed(1), listMs.toFixed(0)];
}

function deadToken(_: unknown, at: number): string {
  const name = `token-${at}`;
  return `${created(name)}${JSON.stringify({ event: "revoked", name, revokedAt: NOW })}\n`;
}

function created(name: string): string {
  const hash = randomBytes(32).toString("hex");
  const event = { event: "created", name, hash, scopes: ["write"], createdAt: NOW };
  return `${JSON.stringify(event)}\n`;
}

async function timed<T>(work: () => Promise<T>): Promise<[ms: number, result: T]> {
  const start = performance.now();
  const result = await work();
  return [performance.now() - start, result];
}

/** The longest time between two turns of the event loop until it is stopped. */
function watchGaps(): { stop(): number } {
  let last = performance.now();
  let longest = 0;
  let isOver = false;
  const turn = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    if (!isOver) setImmediate(turn);
  };
  turn();
  return {
    stop: () => {
      isOver = true;
      return longest;
    },
  };
}
