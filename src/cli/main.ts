#!/usr/bin/env node
/**
 * The program: finds the command, runs it, turns what it throws into one line
 * and an exit status, and ends the process with that once its output is written,
 * whatever else is open: a channel to a parent process (`node:cluster`, pm2)
 * would keep it alive. An error is printed as a sentence; a stack never reaches the
 * terminal.
 */
import { subscribe } from "node:diagnostics_channel";
import type { WarningMessage } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { explainOptions, findCommand, readArgs } from "./args.ts";
import { type Command, type ExitStatus, UsageError } from "./command.ts";
import { backup } from "./commands/backup.ts";
import { exportCommand } from "./commands/export.ts";
import { get } from "./commands/get.ts";
import { health } from "./commands/health.ts";
import { importCommand } from "./commands/import.ts";
import { list } from "./commands/list.ts";
import { definePrintCompletion } from "./commands/print-completion.ts";
import { printOpenapi } from "./commands/print-openapi.ts";
import { printSystemdUnit } from "./commands/print-systemd-unit.ts";
import { repair } from "./commands/repair.ts";
import { serve } from "./commands/serve.ts";
import { tokenCreate } from "./commands/token-create.ts";
import { tokenList } from "./commands/token-list.ts";
import { tokenRevoke } from "./commands/token-revoke.ts";
import { verify } from "./commands/verify.ts";
import { enterFolder } from "./data-folder.ts";
import { describeCommand, describeProgram } from "./help.ts";
import { nameFault } from "./logging/process-faults.ts";
import { flushOutputs, report, useOutput, watchOutputs } from "./output.ts";
import { VERSION } from "./version.ts";

const COMMANDS: readonly Command[] = [
  serve,
  tokenCreate,
  tokenList,
  tokenRevoke,
  get,
  list,
  verify,
  repair,
  backup,
  importCommand,
  exportCommand,
  health,
  printOpenapi,
  printSystemdUnit,
  definePrintCompletion(() => COMMANDS),
];

/** `invalid_json`: what should be imported is no text of lines. No other command throws it. */
const NEEDS_A_PERSON: readonly string[] = ["corruption", "invalid_json"];

async function main(words: readonly string[]): Promise<ExitStatus> {
  watchOutputs();
  requireNode();
  const [first] = words;
  if (first === "--version" || first === "-v") return print(`${VERSION}\n`);
  if (first === "--help" || first === "-h" || first === "help") {
    return print(describeProgram(COMMANDS));
  }
  if (first === undefined) {
    process.stderr.write(describeProgram(COMMANDS));
    return 2;
  }
  const { command, rest } = findCommand(words, COMMANDS);
  const { args, options, wantsHelp } = readArgs(command, rest);
  if (wantsHelp) return print(describeCommand(command));
  useOutput(command.outputUse ?? "result");
  const { data } = options;
  const isEntered = data === undefined || command.entersFolder === true;
  const ready = isEntered ? options : { ...options, data: enterFolder(data) };
  return command.run(args, ready, () => explainOptions(command, rest));
}

/**
 * Refuses a runtime on which plants are not safe, before anything is touched.
 *
 * @throws UsageError.
 */
function requireNode(): void {
  const { bun, deno } = process.versions;
  if (bun !== undefined || deno !== undefined) {
    const runtime = bun === undefined ? `Deno ${deno}` : `Bun ${bun}`;
    throw new UsageError(`cannot run under ${runtime}: run it with Node.js`);
  }
  if (process.permission !== undefined) {
    throw new UsageError(
      "cannot run under --permission: Node.js refuses fsync there, and no plant would be durable; start node without that flag",
    );
  }
}

/** A help text. */
function print(text: string): ExitStatus {
  process.stdout.write(text);
  return 0;
}

function exitStatus(error: unknown): ExitStatus {
  if (error instanceof UsageError) return 2;
  return error instanceof PlantStoreError && NEEDS_A_PERSON.includes(error.code) ? 3 : 1;
}

subscribe("plant-store:warning", (message) => {
  const { message: text, cause, requestId } = message as WarningMessage;
  const why = cause instanceof Error ? `: ${cause.message}` : "";
  const fields = requestId === undefined ? {} : { requestId };
  report({ level: "warn", event: "warning", message: text + why, fields });
});
// Not by a top-level await: the one file of the executable is CommonJS, which has none.
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
