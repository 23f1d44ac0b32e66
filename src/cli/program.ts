/**
 * The program. Runs the command that is named, and turns what it throws into one line and
 * an exit status. Exits once all output is written, because a channel to a parent process would keep
 * the process alive.
 */
import { PlantStoreError } from "../core/errors.ts";
import {
  type Command,
  describeCommand,
  describeProgram,
  type ExitStatus,
  findCommand,
  readArgs,
  UsageError,
  VERSION,
} from "./command.ts";
import { commands as dataCommands } from "./data-commands.ts";
import { health } from "./health.ts";
import { flushOutputs, printListing, report, reportWarnings, watchOutputs } from "./output.ts";
import { commands as printCommands } from "./print.ts";
import { serve } from "./serve.ts";
import { commands as tokenCommands } from "./token-commands.ts";

/** In the order of the help. */
const COMMANDS: readonly Command[] = [
  serve,
  ...tokenCommands,
  ...dataCommands,
  health,
  ...printCommands,
];

/** `invalid_json`: the file to import is not lines of text. No other command throws it. */
const NEEDS_A_PERSON: readonly string[] = ["corruption", "unsynced", "invalid_json"];

async function main(words: readonly string[]): Promise<ExitStatus> {
  watchOutputs();
  const [first, second] = words;
  if (first === "--version" || first === "-v") return print(`${VERSION}\n`);
  const isGroup = COMMANDS.some(({ name }) => name.startsWith(`${first} `));
  const asked = isGroup ? second : first;
  if (["help", "--help", "-h"].includes(`${asked}`)) return print(describeProgram(COMMANDS));
  if (first === undefined) {
    process.stderr.write(describeProgram(COMMANDS));
    return 2;
  }
  const { command, rest } = findCommand(words, COMMANDS);
  const { args, options, wantsHelp } = readArgs(command, rest);
  if (wantsHelp) return print(describeCommand(command));
  return (await command.run(args, options)) ?? 0;
}

async function print(text: string): Promise<ExitStatus> {
  await printListing([Buffer.from(text)]);
  return 0;
}

function exitStatus(error: unknown): ExitStatus {
  if (error instanceof UsageError) return 2;
  const needsAPerson = (each: unknown) =>
    each instanceof PlantStoreError && NEEDS_A_PERSON.includes(each.code);
  return needsAPerson(error) || needsAPerson((error as Error)?.cause) ? 3 : 1;
}

/** What a client must not see of a failure of the store, an operator has to know. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause, message } = error;
  return cause instanceof PlantStoreError ? `${message}: ${cause.message}` : message;
}

reportWarnings();
main(process.argv.slice(2))
  .catch((error: unknown) => {
    report({ level: "error", event: "failed", message: describe(error) });
    return exitStatus(error);
  })
  .then(async (status) => {
    await flushOutputs();
    process.exit(status);
  });
