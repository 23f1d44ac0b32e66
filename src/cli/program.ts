/** The program: runs the command that is named, and turns what it throws into one line and an exit status. */
import { PlantStoreError } from "../core/errors.ts";
import {
  describeCommand,
  describeProgram,
  type ExitStatus,
  readArgs,
  UsageError,
  VERSION,
} from "./command.ts";
import { commands as dataCommands } from "./data-commands.ts";
import { health } from "./health.ts";
import { print, printNotice, report, reportWarnings, watchOutputs } from "./output.ts";
import { commands as printCommands } from "./print.ts";
import { serve } from "./serve.ts";
import { commands as tokenCommands } from "./token-commands.ts";

/** In the order of the help. */
const COMMANDS = [serve, ...tokenCommands, ...dataCommands, health, ...printCommands];

async function main(argv: readonly string[]): Promise<ExitStatus> {
  const [first] = argv;
  if (first === "--version" || first === "-v") return print(`${VERSION}\n`);
  if (first === undefined) {
    process.stderr.write(describeProgram(COMMANDS));
    return 2;
  }
  const typed = `${argv.join(" ")} `.replace(/^help /, "");
  const command = COMMANDS.find(({ name }) => typed.startsWith(`${name} `));
  if (first === "help" || argv.includes("--help") || argv.includes("-h")) {
    return print(command === undefined ? describeProgram(COMMANDS) : describeCommand(command));
  }
  if (command === undefined) {
    const group = COMMANDS.filter(({ name }) => name.startsWith(`${first} `));
    const expected = (group.length > 0 ? group : COMMANDS).map(({ name }) => name).join(", ");
    const words = argv.slice(0, group.length > 0 ? 2 : 1).join(" ");
    const got = words.replace(/=.*/s, ""); // the value of an option may be secret
    throw new UsageError(`expected a command (${expected}), got "${got}"; see plant-store --help`);
  }
  const { args, options } = readArgs(command, argv.slice(command.name.split(" ").length));
  return (await command.run(args, options)) ?? 0;
}

/** `invalid_json`: the file to import is not lines of text. No other command throws it. */
const NEEDS_MANUAL_REPAIR: readonly string[] = ["corruption", "unsynced", "invalid_json"];

function exitStatus(error: unknown): ExitStatus {
  if (error instanceof UsageError) return 2;
  const causes = [error, (error as Error)?.cause];
  const isManual = causes.some(
    (each) => each instanceof PlantStoreError && NEEDS_MANUAL_REPAIR.includes(each.code),
  );
  return isManual ? 3 : 1;
}

/** An operator has to know the details that a client must not see. */
function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause, message } = error;
  return cause instanceof PlantStoreError ? `${message}: ${cause.message}` : message;
}

watchOutputs();
reportWarnings();
main(process.argv.slice(2))
  .catch((error: unknown) => {
    const message = describeError(error);
    // Wrong usage is plain text, whatever form the log has: a person typed it.
    if (error instanceof UsageError) printNotice({ level: "error", event: "failed", message });
    else report("error", "failed", message);
    return exitStatus(error);
  })
  .then((status) => {
    // Node ends once its output is written; 1 s later at the latest, if a start that was broken off keeps it alive.
    process.exitCode = status;
    setTimeout(() => process.exit(), 1000).unref();
    process.disconnect?.();
  });
