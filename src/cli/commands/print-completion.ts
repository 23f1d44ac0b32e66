/** `plant-store print completion bash|zsh`: a script that completes commands, options and values. */
import { type Command, defineCommand, UsageError } from "../command.ts";
import { completionScript, SHELLS } from "../completion.ts";
import { printLines } from "../output.ts";

/** @param commands the table of all, this one among them, so it is asked for when it is there. */
export function definePrintCompletion(commands: () => readonly Command[]): Command {
  return defineCommand({
    name: "print completion",
    summary: "print a completion script for a shell",
    arguments: [{ placeholder: SHELLS.join("|"), values: SHELLS }],
    options: {},
    details: "For this shell, or in its start file: source <(plant-store print completion bash)",
    async run([word]) {
      const shell = SHELLS.find((candidate) => candidate === word);
      if (shell === undefined) {
        throw new UsageError(`print completion: expected ${SHELLS.join(" or ")}, got "${word}"`);
      }
      await printLines(completionScript(shell, commands()).trimEnd().split("\n"));
      return 0;
    },
  });
}
