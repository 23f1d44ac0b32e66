/**
 * `plant-store print completion bash|zsh`: a script that completes commands, options and values.
 *
 * Both scripts have the same table of what may follow which words, made from the commands, and the
 * same function that looks up candidates. They differ in how candidates reach the shell.
 */
import { type Command, defineCommand, flagOf, UsageError } from "./command.ts";
import { printLines } from "./output.ts";

const SCRIPTS = new Map([
  ["bash", bashScript],
  ["zsh", zshScript],
]);
const SHELLS = [...SCRIPTS.keys()];

/** @param commands returns all commands, including this one. */
export function definePrintCompletion(commands: () => readonly Command[]): Command {
  return defineCommand({
    name: "print completion",
    summary: "print a completion script for a shell",
    arguments: [SHELLS.join("|")],
    options: {},
    details: "For this shell, or in its start file: source <(plant-store print completion bash)",
    async run([shell = ""]) {
      const script = SCRIPTS.get(shell);
      if (script === undefined) {
        throw new UsageError(`print completion: expected ${SHELLS.join(" or ")}, got "${shell}"`);
      }
      await printLines(script(commands()).trimEnd().split("\n"));
    },
  });
}

/** Values that are paths, by what the help shows for them. */
const PATHS = new Map([
  ["FILE", "<files>"],
  ["DIR", "<folders>"],
  ["TARGET", "<folders>"],
]);

/** What may be typed for a value: words, paths, or `otherwise` for anything else. */
function valuesOf(placeholder: string, otherwise: string): string {
  if (placeholder.includes("|")) return placeholder.replaceAll("|", " ");
  return PATHS.get(placeholder) ?? otherwise;
}

/** What may follow which words: commands, the options and arguments of one, the values of those. */
function rowsOf(commands: readonly Command[]): [words: string, candidates: string][] {
  const heads = [...new Set(commands.map(({ name }) => name.split(" ")[0] ?? ""))];
  const groups = heads.map((head): [string, string] => {
    const group = commands.filter(({ name }) => name.startsWith(`${head} `));
    return [` ${head}`, group.map(({ name }) => name.slice(head.length + 1)).join(" ")];
  });
  const details = commands.flatMap(({ name, arguments: expected = [], options }) => [
    [` ${name}`, ["help", ...Object.keys(options)].map(flagOf).join(" ")] as const,
    ...expected.map((argument, at) => [` ${name} <${at}>`, valuesOf(argument, "")] as const),
    ...Object.entries(options).map(([option, { placeholder }]) => {
      const values = placeholder === undefined ? "" : valuesOf(placeholder, "<text>");
      return [` ${name} ${flagOf(option)}`, values] as const;
    }),
  ]);
  const all = [["", `${heads.join(" ")} help --help --version`], ...groups, ...details] as const;
  return all.filter(([, candidates]) => candidates !== "").map(([...row]) => row);
}

function functions(commands: readonly Command[]): string {
  const branches = rowsOf(commands).map(([words, text]) => `    "${words}") echo "${text}" ;;\n`);
  return `_plant_store_table() { # what may follow these words
  case "$1" in
${branches.join("")}  esac
}
# What the first word may become after the others: candidates, <files>, <folders> or <text>.
_plant_store_candidates() {
  local current="$1" command="" word option="" place=0
  shift
  for word in "$@"; do
    if [ -n "$option" ]; then option=""; continue; fi
    case "$word" in
      --*=*) ;;
      --*) [ -z "$(_plant_store_table "$command $word")" ] || option="$word" ;;
      *)
        if [ -n "$(_plant_store_table "$command $word")" ]; then command="$command $word"
        else place=$((place + 1)); fi ;;
    esac
  done
  word="$(_plant_store_table "$command <$place>")"
  case "$current" in -*) word="" ;; esac
  [ -z "$option" ] || word="$(_plant_store_table "$command $option")"
  echo "\${word:-$(_plant_store_table "$command")}"
}
`;
}

function bashScript(commands: readonly Command[]): string {
  return `# bash completion for plant-store, to be read by a shell:
#   source <(plant-store print completion bash)
${functions(commands)}_plant_store() {
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
${functions(commands)}_plant_store() {
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
