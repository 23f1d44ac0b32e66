/** `plant-store backup TARGET`: a verified copy, also beside a running server. */
import { backup as backUp } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { DATA } from "../options.ts";
import { count, printLines } from "../output.ts";
import { Progress } from "../progress.ts";

export const backup = defineCommand({
  name: "backup",
  summary: "copy the data directory into a new folder TARGET, consistently",
  arguments: [{ placeholder: "TARGET", values: "folders" }],
  options: { data: DATA },
  details: `The copy holds everything acknowledged before the backup began and is itself a
data directory: restore it by copying it back, or serve it with --data TARGET.`,
  async run([target = ""], { data = "" }) {
    const progress = new Progress("verifying the copy");
    const { plants, bytes } = await backUp(data, target, (done, total) =>
      progress.update(done, total),
    ).finally(Progress.clear);
    await printLines([
      `backed up ${count(plants, "plant")}, ${count(bytes, "byte")}, to "${target}"`,
    ]);
    return 0;
  },
});
