/** The output of strace as calls; the two parts of a call that was interrupted by another are joined. */

export interface Call {
  readonly name: string;
  readonly args: string;
  readonly result: string;
  /** The lines of the trace on which the call began and was complete. */
  readonly begin: number;
  readonly end: number;
}

/** The calls of a trace (`-f -o`), in the order in which they were complete. */
export function readCalls(trace: string): Call[] {
  const calls: Call[] = [];
  const begun = new Map<string, { readonly text: string; readonly begin: number }>();
  for (const [at, line] of trace.split("\n").entries()) {
    const [, pid = "", rest = ""] = /^(\d+) +(.*)$/.exec(line) ?? [];
    const unfinished = /^(.*?) *<unfinished \.\.\.>$/.exec(rest)?.[1];
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/.exec(rest)?.[1];
    if (unfinished !== undefined) {
      begun.set(pid, { text: unfinished, begin: at });
      continue;
    }
    const { text, begin } = begun.get(pid) ?? { text: "", begin: at };
    const whole = resumed === undefined ? rest : text + resumed;
    const [, name = "", args = "", result = ""] = /^(\w+)\((.*)\) += (.*)$/.exec(whole) ?? [];
    if (name !== "") calls.push({ name, args, result, begin, end: at });
    if (resumed !== undefined) begun.delete(pid);
  }
  return calls;
}
