/**
 * `plant-store print completion bash|zsh`: a script that completes commands, options and values,
 * made from the table of commands that `args` reads by.
 *
 * Both scripts hold the same functions as tables: the commands, the options of a command, and the
 * values of an option or of an argument. Only how candidates reach the shell differs.
 */
import { type Argument, type Command, defineCommand, type Option, UsageError } from "./command.ts";
import { printLines } from "./output.ts";

const SCRIPTS: Readonly<Record<string, (commands: readonly Command[]) => string>> = {
  bash: bashScript,
  zsh: zshScript,
};
const SHELLS = Object.keys(SCRIPTS);

/** @param commands returns the table of all, which this one is a part of. */
export function definePrintCompletion(commands: () => readonly Command[]): Command {
  return defineCommand({
    name: "print completion",
    summary: "print a completion script for a shell",
    arguments: [{ placeholder: SHELLS.join("|"), values: SHELLS }],
    options: {},
    details: "For this shell, or in its start file: source <(plant-store print completion bash)",
    async run([shell = ""]) {
      const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
      if (script === undefined) {
        throw new UsageError(`print completion: expected ${SHELLS.join(" or ")}, got "${shell}"`);
      }
      await printLines(script(commands()).trimEnd().split("\n"));
      return 0;
    },
  });
}

/** What stands in a table for a value: words, `<files>`, `<folders>`, or nothing for anything. */
function valuesOf({ values = [] }: Argument | Option<unknown>): string {
  return typeof values === "string" ? `<${values}>` : values.join(" ");
}

/** `case` branches of a shell: what is printed where `$1` is one of these words. */
function branches(rows: readonly (readonly [pattern: string, text: string])[]): string {
  return rows
    .filter(([, text]) => text !== "")
    .map(([pattern, text]) => `    "${pattern}") echo "${text}" ;;\n`)
    .join("");
}

function tables(commands: readonly Command[]): string {
  const heads = [...new Set(commands.map(({ name }) => name.split(" ")[0] ?? ""))];
  const tails = heads.map((head): [string, string] => [
    head,
    commands
      .filter(({ name }) => name.startsWith(`${head} `))
      .map(({ name }) => name.slice(head.length + 1))
      .join(" "),
  ]);
  const options = commands.map(({ name, options }): [string, string] => [
    name,
    ["help", ...Object.keys(options)].map((option) => `--${option}`).join(" "),
  ]);
  const values = commands.flatMap(({ name: command, options }) =>
    Object.entries(options).map(([name, option]): [string, string] => [
      `${command} --${name}`,
      option.placeholder === undefined ? "<none>" : valuesOf(option) || "<text>",
    ]),
  );
  const places = commands.flatMap(({ name, arguments: all }) =>
    all.map((argument, at): [string, string] => [`${name} ${at}`, valuesOf(argument)]),
  );
  return `_plant_store_words() { # the words of commands, behind those there are
  case "$1" in
    "") echo "${heads.join(" ")} help --help --version" ;;
${branches(tails)}  esac
}
_plant_store_options() { # of a command
  case "$1" in
${branches(options)}  esac
}
_plant_store_values() { # of an option of a command; <none> for a switch
  case "$1" in
${branches(values)}  esac
}
_plant_store_arguments() { # of a command, by its place
  case "$1" in
${branches(places)}  esac
}
# What the first word may become behind the others: candidates, <files>, <folders> or nothing.
_plant_store_candidates() {
  local current="$1" command="" word option="" place=0
  shift
  for word in "$@"; do
    if [ -n "$option" ]; then option=""; continue; fi
    case "$word" in
      --*=*) ;;
      --*)
        case "$(_plant_store_values "$command $word")" in ""|"<none>") ;; *) option="$word" ;; esac ;;
      *)
        if [ -n "$(_plant_store_words "$command")" ]; then command="\${command:+$command }$word"
        else place=$((place + 1)); fi ;;
    esac
  done
  if [ -n "$option" ]; then _plant_store_values "$command $option"
  elif [ -n "$(_plant_store_words "$command")" ]; then _plant_store_words "$command"
  else
    word="$(_plant_store_arguments "$command $place")"
    case "$current" in -*) word="" ;; esac
    if [ -n "$word" ]; then echo "$word"; else _plant_store_options "$command"; fi
  fi
}
`;
}

function bashScript(commands: readonly Command[]): string {
  return `# bash completion for plant-store, to be read by a shell:
#   source <(plant-store print completion bash)
${tables(commands)}_plant_store() {
  local IFS=$' \\t\\n' current="\${COMP_WORDS[COMP_CWORD]}" words=() word candidate
  # Bash makes three words of --data=x.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    [ "$word" = "=" ] || words+=("$word")
  done
  [ "$current" != "=" ] || current=""
  COMPREPLY=()
  for candidate in $(_plant_store_candidates "$current" "\${words[@]}"); do
    case "$candidate" in
      "<files>") compopt -o filenames; mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current") ;;
      "<folders>") compopt -o filenames; mapfile -t -O "\${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$current") ;;
      "<"*) ;;
      *) [[ "$candidate" != "$current"* ]] || COMPREPLY+=("$candidate") ;;
    esac
  done
}
complete -F _plant_store plant-store
`;
}

function zshScript(commands: readonly Command[]): string {
  return `#compdef plant-store
# zsh completion for plant-store: as a file _plant-store in a folder of $fpath, or
#   source <(plant-store print completion zsh)
${tables(commands)}_plant_store() {
  local current="\${words[CURRENT]}" candidate
  local -a before candidates
  before=("\${(@)words[2,CURRENT-1]}")
  case "$current" in
    --*=*) before+=("\${current%%=*}"); compset -P '*=' ;;
  esac
  candidates=(\${=:-$(_plant_store_candidates "$current" "\${before[@]}")})
  for candidate in $candidates; do
    case "$candidate" in
      "<files>") _files ;;
      "<folders>") _files -/ ;;
      "<"*) ;;
      *) compadd -- "$candidate" ;;
    esac
  done
}
if [ "\${funcstack[1]}" = _plant-store ]; then _plant_store "$@"; else compdef _plant_store plant-store; fi
`;
}
