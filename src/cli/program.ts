/**
 * The program. Imports and runs the command that is named, and turns what it throws into one line and
 * an exit status. Exits once all output is written, because a channel to a parent process (pm2) would keep
 * the process alive.
 */
import { publishWarning } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import {
  type Command,
  describeCommand,
  describeGroup,
  describeProgram,
  type ExitStatus,
  findCommand,
  isServiceLink,
  readArgs,
  type Setting,
  UsageError,
  VERSION,
  variableOf,
} from "./command.ts";
import { becomeOwner } from "./data-folder.ts";
import { nameFault } from "./log.ts";
import {
  count,
  flushOutputs,
  printListing,
  printMessage,
  report,
  reportWarnings,
  watchOutputs,
} from "./output.ts";

/** The commands of each file, in the order of the help, and the first words of their names. */
const FILES: readonly {
  readonly words: readonly string[];
  readonly load: () => Promise<readonly Command[]>;
}[] = [
  { words: ["serve"], load: async () => [(await import("./serve.ts")).serve] },
  { words: ["token"], load: async () => (await import("./token-commands.ts")).commands },
  {
    words: ["get", "verify", "repair", "backup", "restore", "import", "export"],
    load: async () => (await import("./data-commands.ts")).commands,
  },
  { words: ["health"], load: async () => [(await import("./health.ts")).health] },
  { words: ["print"], load: async () => (await import("./print.ts")).commands },
];

/** @returns the commands of the file that has those of this word, or else all commands. @throws UsageError if a file is missing. */
async function loadCommands(word?: string): Promise<readonly Command[]> {
  const one = FILES.find(({ words }) => word !== undefined && words.includes(word));
  try {
    return (await Promise.all((one ? [one] : FILES).map(({ load }) => load()))).flat();
  } catch (error) {
    const { message } = error as Error;
    throw new UsageError(`cannot load the program, install it again: ${message}`);
  }
}

/** `invalid_json`: the file to import is not lines of text. No other command throws it. */
const NEEDS_A_PERSON: readonly string[] = ["corruption", "unsynced", "invalid_json"];

async function main(typed: readonly string[]): Promise<ExitStatus> {
  watchOutputs();
  const words = typed[0] === "help" ? [...typed.slice(1), "--help"] : typed;
  const [first, second] = words;
  if (first === "--version" || first === "-v") return print(`${VERSION}\n`);
  if (first === "--help" || first === "-h") return print(describeProgram(await loadCommands()));
  if (first === undefined) {
    process.stderr.write(describeProgram(await loadCommands()));
    return 2;
  }
  const commands = await loadCommands(first);
  const wantsGroup = second === "--help" || second === "-h";
  const group = wantsGroup ? describeGroup(first, commands) : undefined;
  if (group !== undefined) return print(group);
  const { command, rest } = findCommand(words, commands);
  const { args, options, settings, wantsHelp } = readArgs(command, rest);
  if (wantsHelp) return print(describeCommand(command));
  const isDatabase = options.database !== undefined || options.databaseFile !== undefined;
  // First: the owner of the data directory may not be able to read the program.
  const reportIgnored = options.data === undefined ? () => {} : await findIgnored(settings);
  if (options.data !== undefined && !isDatabase && !command.becomesOwner) becomeOwner(options.data);
  const running = command.run(args, options, settings);
  reportIgnored(); // now: `serve` has started its log
  return (await running) ?? 0;
}

/** Finds the variables with our prefix that no option has. @returns a function that reports them. */
async function findIgnored(settings: readonly Setting[]): Promise<() => void> {
  const ours = Object.keys(process.env).filter((name) => name.startsWith("PLANT_STORE_"));
  const links = ours.filter((name) => isServiceLink(name, process.env[name]));
  const variables = new Set([...links, ...settings.map(({ name }) => variableOf(name))]);
  const isUnknown = (name: string) => !variables.has(name);
  if (ours.some(isUnknown)) {
    const options = (await loadCommands()).flatMap((command) => Object.keys(command.options));
    for (const name of options) variables.add(variableOf(name));
  }
  const unknown = ours.filter(isUnknown);
  return () => {
    if (links.length > 0) {
      const some = `ignoring ${count(links.length, "variable")} of a Kubernetes Service, such as ${links[0]}`;
      printMessage(`${some}; enableServiceLinks: false in the pod leaves them out`);
    }
    if (unknown.length > 0) {
      const all = "plant-store COMMAND --help names those of a command";
      publishWarning(`ignoring ${unknown.join(", ")}: no option has such a variable; ${all}`);
    }
  };
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
