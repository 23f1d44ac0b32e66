/** Sessions of a server: a start from some state, creates, and a clean stop. */
import { join } from "node:path";
import { Connection } from "./connection.ts";
import { type FolderState, type MakeState, START_STATES } from "./folder-states.ts";
import { judgeFolder } from "./judge.ts";
import { newTally, sendConflict, sendPlant, type Tally, type Target } from "./load.ts";
import type { Attempt, Launch, Scenario } from "./scenario.ts";
import { Server } from "./server.ts";

export function sessionScenario(name: string, make: MakeState): Scenario {
  let state: FolderState | undefined;
  return {
    name: `start, create, stop: ${name}`,
    async prepare(root) {
      state = await make(join(root, "data"));
    },
    attempt(root, launch) {
      if (state === undefined) throw new Error("not prepared");
      return runSession(join(root, "data"), state, launch);
    },
  };
}

export const SESSIONS: readonly Scenario[] = Object.entries(START_STATES).map(([name, make]) =>
  sessionScenario(name, make),
);

async function runSession(
  folder: string,
  state: FolderState,
  { program, surroundings }: Launch,
): Promise<Attempt> {
  const book = state.book.copy();
  const args = state.tokens.length === 0 ? ["--first-token"] : [];
  const server = new Server(program, folder, { ...surroundings, args });
  const port = await server.ready;
  const shown = /\bpst_[\w-]{43}/.exec(server.run.stdout)?.[0];
  const tokens = shown === undefined ? state.tokens : [...state.tokens, shown];
  const tally = newTally();
  const [token] = tokens;
  if (port !== undefined && token !== undefined) await converse({ port, token, book }, tally);
  const ended = await server.stop();
  return {
    ended,
    acknowledged: book.acknowledged - state.book.acknowledged,
    judge: async (totals) => {
      totals.faults.push(...tally.wrong);
      await judgeFolder(program, folder, { ...state, book, tokens }, totals);
    },
  };
}

/** A create, its replay and a conflict with it; then three creates at once. */
async function converse(target: Target, tally: Tally): Promise<void> {
  const opening = Array.from({ length: 3 }, () => Connection.open(target.port));
  const connections = (await Promise.all(opening)).filter((opened) => opened !== undefined);
  const [first] = connections;
  if (first !== undefined) {
    const plant = target.book.take();
    if (await sendPlant(first, target, plant, tally)) {
      await sendPlant(first, target, plant, tally);
      await sendConflict(first, target, plant, tally);
    }
  }
  await Promise.all(
    connections.map((connection) => sendPlant(connection, target, target.book.take(), tally)),
  );
  for (const connection of connections) connection.close();
}
