/** `plant-store repair`: the explicit way on where a start refuses. */
import { type RepairOutcome, type RepairPlan, repairLog } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { confirm } from "../confirm.ts";
import { DATA, parseSwitch } from "../options.ts";
import { count, printLines, printMessage } from "../output.ts";
import { Progress } from "../progress.ts";
import { describeFault } from "./verify.ts";

export const repair = defineCommand({
  name: "repair",
  summary: "accept an edited log, or write a new one of what is readable",
  arguments: [],
  options: {
    data: DATA,
    yes: { help: "go on without a question", parse: parseSwitch },
  },
  details: `Where every line is readable, the log is accepted as it is. Else a new log is
written without the lines that are not, the first plant of an id winning; the
old log is kept beside it, and every line left out is printed. Tokens are not touched.
Exit status 3 when the answer is no: the log still needs a person.`,
  async run(_, { data = "", yes = false }) {
    const progress = new Progress("reading");
    const outcome = await repairLog(data, {
      confirm: async (plan) => {
        printMessage(describePlan(plan));
        return yes || (await confirm("Go on?"));
      },
      onLeftOut: (fault) => printMessage(`left out: ${describeFault(fault)}`),
      onProgress: (bytes, total) => progress.update(bytes, total),
    }).finally(Progress.clear);
    await printLines([describeOutcome(outcome)]);
    return outcome.isDone ? 0 : 3;
  },
});

function describePlan({ action, plants, leftOut, checkpoint }: RepairPlan): string {
  const known = checkpoint === undefined ? "" : ` (the checkpoint knew of ${checkpoint.records})`;
  switch (action) {
    case "start_empty":
      return `there is no log any more; the store would start empty${known}`;
    case "rewrite":
      return `${count(leftOut, "line")} cannot stay; a new log would hold ${count(plants, "plant")}${known}`;
    default:
      return `every line is readable; the log would be accepted as it is, with ${count(plants, "plant")}${known}`;
  }
}

function describeOutcome({ action, isDone, plants, leftOut, keptAs }: RepairOutcome): string {
  if (!isDone) return "nothing was changed";
  switch (action) {
    case "nothing":
      return `nothing to repair: ${count(plants, "plant")}`;
    case "accept":
      return `accepted: ${count(plants, "plant")}`;
    case "start_empty":
      return "accepted: the store will start empty";
    case "rewrite":
      return `repaired: ${count(plants, "plant")}, ${count(leftOut, "line")} left out; the old log is kept as "${keptAs}"`;
  }
}
