/**
 * `plant-store print completion bash|zsh`: a script that completes commands, options and values, and
 * paths where it has no word to offer. The script is for bash; zsh emulates bash to run it.
 */
import { type Command, defineCommand, flagOf, UsageError } from "./command.ts";
import { printLines } from "./output.ts";

/** What each shell runs before the script. */
const PRELUDES = new Map([
  ["bash", []],
  ["zsh", ["autoload -Uz bashcompinit && bashcompinit"]],
]);
const SHELLS = [...PRELUDES.keys()];

/** @param commands loads all commands, including this one. */
export function definePrintCompletion(commands: () => Promise<readonly Command[]>): Command {
  return defineCommand({
    name: "print completion",
    summary: "print a completion script for a shell",
    arguments: [SHELLS.join("|")],
    options: {},
    details: "For this shell, or in its start file: source <(plant-store print completion bash)",
    async run([shell = ""]) {
      const prelude = PRELUDES.get(shell);
      if (prelude === undefined) {
        throw new UsageError(`print completion: expected ${SHELLS.join(" or ")}, got "${shell}"`);
      }
      await printLines([
        ...prelude,
        ...completionScript(await commands())
          .trimEnd()
          .split("\n"),
      ]);
    },
  });
}

type Row = readonly [words: string, candidates: string];

/** What may follow some words: commands, the arguments and options of a command, their values. */
function rowsOf(commands: readonly Command[]): Row[] {
  const heads = [...new Set(commands.map(({ name }) => name.split(" ")[0] ?? ""))];
  const groups = heads.map((head): Row => {
    const group = commands.filter(({ name }) => name.startsWith(`${head} `));
    return [` ${head}`, group.map(({ name }) => name.slice(head.length + 1)).join(" ")];
  });
  const details = commands.flatMap(({ name, arguments: expected = [], options }): Row[] => [
    [` ${name}`, ["help", ...Object.keys(options)].map(flagOf).join(" ")],
    ...expected.map((argument, at): Row => [` ${name} <${at}>`, wordsOf(argument)]),
    ...Object.entries(options).map(([option, { placeholder }]): Row => {
      const values = placeholder === undefined ? "" : wordsOf(placeholder) || "<value>";
      return [` ${name} ${flagOf(option)}`, values];
    }),
  ]);
  const all: Row[] = [["", `${heads.join(" ")} help --help --version`], ...groups, ...details];
  return all.filter(([, candidates]) => candidates !== "");
}

/** `bash zsh` for `bash|zsh`; nothing if any text may be a value. */
function wordsOf(placeholder: string): string {
  return placeholder.includes("|") ? placeholder.replaceAll("|", " ") : "";
}

function completionScript(commands: readonly Command[]): string {
  const branches = rowsOf(commands).map(([words, text]) => `    "${words}") echo "${text}" ;;\n`);
  return `_plant_store_table() { # what may follow these words
  case "$1" in
${branches.join("")}  esac
}
_plant_store() {
  local IFS=$' \\t\\n' current="\${COMP_WORDS[COMP_CWORD]}" prefix="" command="" option="" place=0 word
  case "$current" in
    =) current="" ;; # bash makes three words of --data=x, and zsh one
    --*=*) prefix="\${current%%=*}=" current="\${current#*=}" ;;
  esac
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}" \${prefix%=}; do
    if [ "$word" = "=" ]; then continue; fi
    if [ -n "$option" ]; then option=""; continue; fi
    case "$word" in
      --*=*) ;;
      --*) [ -z "$(_plant_store_table "$command $word")" ] || option="$word" ;;
      *)
        if [ -n "$(_plant_store_table "$command $word")" ]; then command="$command $word"
        else place=$((place + 1)); fi ;;
    esac
  done
  local values="$(_plant_store_table "$command <$place>")"
  case "$current" in -*) values="" ;; esac
  [ -z "$option" ] || values="$(_plant_store_table "$command $option")"
  COMPREPLY=()
  for word in \${values:-$(_plant_store_table "$command")}; do
    case "$word" in
      "<"*) ;;
      "$current"*) COMPREPLY+=("$prefix$word") ;;
    esac
  done
}
complete -o default -F _plant_store plant-store
`;
}
