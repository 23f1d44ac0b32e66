/**
 * The program. Runs the command that is named, and turns what it throws into one line and an exit
 * status. Exits once all output is written, because a channel to a parent process (pm2) would keep
 * the process alive.
 */
import { PlantStoreError } from "../core/errors.ts";
import { describeCommand, describeGroup, describeProgram, findCommand, readArgs } from "./args.ts";
import { type Command, type ExitStatus, UsageError, VERSION } from "./command.ts";
import { definePrintCompletion } from "./completion.ts";
import * as data from "./data-commands.ts";
import { becomeOwner } from "./data-folder.ts";
import { health } from "./health.ts";
import { nameFault } from "./log.ts";
import { flushOutputs, printListing, report, reportWarnings, watchOutputs } from "./output.ts";
import { printDatabaseSchema, printOpenapi, printSystemdUnit } from "./print.ts";
import { serve } from "./serve.ts";
import { tokenCreate, tokenExport, tokenImport, tokenList, tokenRevoke } from "./token-commands.ts";

/** In the order of the help. */
const COMMANDS: readonly Command[] = [
  serve,
  tokenCreate,
  tokenList,
  tokenRevoke,
  tokenExport,
  tokenImport,
  data.get,
  data.list,
  data.verify,
  data.repair,
  data.backup,
  data.restore,
  data.importCommand,
  data.exportCommand,
  health,
  printOpenapi,
  printDatabaseSchema,
  printSystemdUnit,
  definePrintCompletion(() => COMMANDS),
];

/** `invalid_json`: the file to import is not lines of text. No other command throws it. */
const NEEDS_A_PERSON: readonly string[] = ["corruption", "unsynced", "invalid_json"];

async function main(typed: readonly string[]): Promise<ExitStatus> {
  watchOutputs();
  const words = typed[0] === "help" ? [...typed.slice(1), "--help"] : typed;
  const [first, second] = words;
  if (first === "--version" || first === "-v") return print(`${VERSION}\n`);
  if (first === "--help" || first === "-h") return print(describeProgram(COMMANDS));
  if (first === undefined) {
    process.stderr.write(describeProgram(COMMANDS));
    return 2;
  }
  const wantsGroup = second === "--help" || second === "-h";
  const group = wantsGroup ? describeGroup(first, COMMANDS) : undefined;
  if (group !== undefined) return print(group);
  const { command, rest } = findCommand(words, COMMANDS);
  const { args, options, settings, wantsHelp } = readArgs(command, rest);
  if (wantsHelp) return print(describeCommand(command));
  const isDatabase = options.database !== undefined || options.databaseFile !== undefined;
  if (options.data !== undefined && !isDatabase && !command.becomesOwner) becomeOwner(options.data);
  return (await command.run(args, options, settings)) ?? 0;
}

/** Whether this user may not open a file or a folder. To run the command again would not help. */
function isDenied(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, syscall } = error as NodeJS.ErrnoException;
  return (code === "EACCES" && syscall !== "connect") || isDenied(error.cause);
}

async function print(text: string): Promise<ExitStatus> {
  await printListing([Buffer.from(text)]);
  return 0;
}

function exitStatus(error: unknown): ExitStatus {
  if (error instanceof UsageError || isDenied(error)) return 2;
  return error instanceof PlantStoreError && NEEDS_A_PERSON.includes(error.code) ? 3 : 1;
}

reportWarnings();
main(process.argv.slice(2))
  .catch((error: unknown) => {
    const message = error instanceof Error ? error.message : nameFault(error);
    report({ level: "error", event: "failed", message });
    return exitStatus(error);
  })
  .then(async (status) => {
    await flushOutputs();
    process.exit(status);
  });
