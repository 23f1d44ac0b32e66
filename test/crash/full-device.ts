/**
 * A device that is full although its file system has room, as a thin volume can be. The kernel reports a
 * page that it could not write once, at the next sync, and marks it clean: from then on the page is right
 * only as long as it stays in memory, and no further sync fails.
 *
 * A folder is copied to the device, and nobody syncs. Then a supervisor starts the server until one start
 * serves: what it serves must be all that was copied, and on the disk. A start that fails must end with 3. With
 * 1, the supervisor would go on until a sync reports no error any more.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type CutRound, type CutScenario, repeat } from "./cut-scenarios.ts";
import { logIn, makeSource } from "./cut-source.ts";
import { execute } from "./loop-disk.ts";
import { describeEnd, Server } from "./server.ts";

/** After so many failed starts no other is tried. */
const STARTS_MAX = 6;

export const fullDevice: CutScenario = {
  name: "full device",
  isOnThinDevice: true,
  async attempt(round) {
    const { program, disk, device, random, totals, work } = round;
    if (device === undefined) throw new Error("expected a thin device");
    const source = await makeSource(join(work, "source"), random, "long");
    const folder = makeFolder(round);
    const logBytes = statSync(logIn(source.folder)).size;
    device.fill(Math.floor((logBytes / 1024) * (0.1 + 0.8 * random.next())));
    execute("cp", "-a", `${source.folder}/.`, folder);
    // The errors of a background write stay for the next sync of the file.
    if (random.next() < 0.3) spawnSync("sync", ["--file-system", disk.folder]);
    const startWithRoom = random.pick([Number.POSITIVE_INFINITY, 2 + random.below(3)]);
    const isForgotten = random.next() < 0.3;
    try {
      for (let start = 1; start <= STARTS_MAX; start++) {
        if (start === startWithRoom) device.giveRoom();
        const server = new Server(program, folder);
        if ((await server.ready) !== undefined) {
          const served = statSync(logIn(folder)).size;
          if (served < logBytes) {
            totals.faults.push(
              `start ${start} serves ${served} of ${logBytes} bytes after a failed sync`,
            );
          }
          const running = await repeat(round, server, source);
          return { folder, book: source.book, live: [source.token], running };
        }
        const ended = await server.ended;
        if (ended.status !== 3) {
          totals.faults.push(`start ${start}: expected status 3, it ${describeEnd(ended)}`);
        }
        if (isForgotten) execute("dd", `if=${logIn(folder)}`, "iflag=nocache", "count=0");
      }
      return undefined;
    } finally {
      device.giveRoom(); // so that the journal can be carried out after the cut
    }
  },
};

/** A folder whose own blocks have room, so that only those of new files are missing. */
function makeFolder({ disk }: CutRound): string {
  const folder = join(disk.folder, "data");
  mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, "lost+found"), "");
  disk.takeUsedRoom();
  return folder;
}
