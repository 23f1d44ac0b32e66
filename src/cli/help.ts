/** The help texts, made from what `args` reads by, so that they cannot differ. */
import { variableName } from "./args.ts";
import type { Command } from "./command.ts";

export function describeProgram(commands: readonly Command[]): string {
  const width = Math.max(...commands.map(usageLength));
  const lines = commands.map(
    (command) => `  ${usage(command).padEnd(width)}  ${command.summary}\n`,
  );
  return `plant-store: a small durable HTTP store for plants

Usage: plant-store COMMAND [OPTION …]

${lines.join("")}
  plant-store COMMAND --help  shows the options of a command
  plant-store --version       shows the version

Exit status: 0 done, 1 failed, 2 wrong usage, 3 the data needs a person.
`;
}

export function describeCommand(command: Command): string {
  const options = Object.entries(command.options).map(([name, option]) => {
    const flag = option.placeholder === undefined ? `--${name}` : `--${name} ${option.placeholder}`;
    const supervisor =
      option.supervisorVariable === undefined ? "" : `$${option.supervisorVariable} or `;
    const fallback =
      option.defaultText === undefined ? "" : `; default ${supervisor}${option.defaultText}`;
    return `  ${flag}\n      ${option.help}${fallback} [${variableName(name)}]\n`;
  });
  const details = command.details === undefined ? "" : `\n${command.details}\n`;
  return `Usage: plant-store ${usage(command)} [OPTION …]

${command.summary}

Options, each also read from the variable in brackets:
${options.join("")}${details}`;
}

function usage(command: Command): string {
  return [command.name, ...command.arguments.map(({ placeholder }) => placeholder)].join(" ");
}

function usageLength(command: Command): number {
  return usage(command).length;
}
