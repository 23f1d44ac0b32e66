/** `plant-store backup TARGET`: a verified copy, also beside a running server. */
import path from "node:path";
import { backup as backUp } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { enterFolder, visitFolder } from "../data-folder.ts";
import { DATA } from "../options.ts";
import { count, printLines } from "../output.ts";
import { Progress } from "../progress.ts";

export const backup = defineCommand({
  name: "backup",
  summary: "copy the data directory into a new folder TARGET, consistently",
  arguments: [{ placeholder: "TARGET", values: "folders" }],
  options: { data: DATA },
  entersFolder: true,
  details: `The copy holds everything acknowledged before the backup began and is itself a
data directory: restore it by copying it back, or serve it with --data TARGET.`,
  async run([target = ""], { data = "" }) {
    // Each folder as its own owner: a target of root's stays root's.
    const visit = visitFolder(data);
    const progress = new Progress("verifying the copy");
    const { plants, bytes } = await backUp(
      visit.folder,
      target,
      (done, total) => progress.update(done, total),
      () => {
        visit.end();
        const { dir, base } = path.parse(path.resolve(target));
        return path.join(enterFolder(dir), base);
      },
    ).finally(Progress.clear);
    await printLines([
      `backed up ${count(plants, "plant")}, ${count(bytes, "byte")}, to "${target}"`,
    ]);
    return 0;
  },
});
