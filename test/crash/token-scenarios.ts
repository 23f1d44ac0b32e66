/** `token create`, in folders of several states. */
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { createToken } from "../../src/index.ts";
import { type FolderState, type MakeState, makeClean, START_STATES } from "./folder-states.ts";
import { judgeFolder } from "./judge.ts";
import { Run, runProgram } from "./program.ts";
import type { Scenario } from "./scenario.ts";
import { describeEnd } from "./server.ts";

async function makeSecond(folder: string): Promise<FolderState> {
  const state = await makeClean(folder);
  const token = await createToken(folder, { name: "second" });
  return { ...state, tokens: [...state.tokens, token] };
}

function withTail(tail: string, isKept: boolean): MakeState {
  return async (folder) => {
    const state = await makeSecond(folder);
    appendFileSync(join(folder, "tokens.jsonl"), tail);
    return { ...state, quarantinedOfTokens: isKept ? [Buffer.from(tail)] : [] };
  };
}

const TORN = '{"event":"revoked","na';
const WHOLE = '{"event":"revoked","name":"third","revokedAt":1}';

const STATES: Readonly<Record<string, MakeState>> = {
  "no folder": START_STATES["no folder"] ?? makeClean,
  "two tokens": makeSecond,
  "torn tail": withTail(TORN, true),
  "tail without line feed": withTail(WHOLE, false),
};

export const TOKEN_CREATES: readonly Scenario[] = Object.entries(STATES).map(([name, make]) =>
  tokenScenario(name, make),
);

function tokenScenario(name: string, make: MakeState): Scenario {
  let state: FolderState | undefined;
  return {
    name: `token create: ${name}`,
    async prepare(root) {
      state = await make(join(root, "data"));
    },
    async attempt(root, { program, surroundings }) {
      if (state === undefined) throw new Error("not prepared");
      const before = state;
      const folder = join(root, "data");
      const args = ["token", "create", "new", "--data", folder];
      const ended = await new Run(program, args, surroundings).ended;
      const shown = /^pst_[\w-]{43}$/m.exec(ended.stdout)?.[0];
      const tokens = shown === undefined ? before.tokens : [...before.tokens, shown];
      return {
        ended,
        acknowledged: tokens.length - before.tokens.length,
        judge: async (totals) => {
          const later = await runProgram(program, ["token", "create", "later", "--data", folder]);
          const [latest = ""] = later.stdout.split("\n");
          if (later.status !== 0) totals.faults.push(`a later token create ${describeEnd(later)}`);
          const known = { ...before, book: before.book.copy(), tokens: [...tokens, latest] };
          await judgeFolder(program, folder, known, totals);
        },
      };
    },
  };
}
