/**
 * A device that is full although its file system has room, as a thin volume can be. The kernel reports a
 * page that it could not write once, at the next sync, and marks it clean: from then on the page is right
 * only as long as it stays in memory, and no further sync fails.
 *
 * A supervisor starts the server until one start serves: what it serves must be on the disk. A start that
 * fails must end with 3. With 1, the supervisor would go on until a sync reports no error any more.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createToken } from "../../src/index.ts";
import { Connection } from "./connection.ts";
import { type CutRound, type CutScenario, type Reported, repeat } from "./cut-scenarios.ts";
import { logIn, makeSource } from "./cut-source.ts";
import { replay, type Target } from "./load.ts";
import { execute } from "./loop-disk.ts";
import { PlantBook } from "./plant-book.ts";
import type { Run } from "./program.ts";
import { describeEnd, Server } from "./server.ts";
import type { SmallDisk } from "./small-disk.ts";

/** After so many failed starts no other is tried. */
const STARTS_MAX = 6;

/** Another program copies a folder to the device, and nobody syncs. */
const copiedToFull: CutScenario = {
  name: "copied to a full device",
  isOnThinDevice: true,
  async attempt(round) {
    const { disk, random, totals, work } = round;
    const device = deviceOf(round);
    const source = await makeSource(join(work, "source"), random, "long");
    const folder = makeFolder(round);
    disk.takeUsedRoom();
    const logBytes = statSync(logIn(source.folder)).size;
    device.fill(Math.floor((logBytes / 1024) * (0.1 + 0.8 * random.next())));
    execute("cp", "-a", `${source.folder}/.`, folder);
    // The errors of a background write stay for the next sync of the file.
    if (random.next() < 0.3) spawnSync("sync", ["--file-system", disk.folder]);
    const server = await startUntilOneServes(round, folder, random.next() < 0.3);
    if (server === undefined) return undefined;
    const servedBytes = statSync(logIn(folder)).size;
    if (servedBytes < logBytes) {
      totals.faults.push(`a start serves ${servedBytes} of ${logBytes} bytes after a failed sync`);
    }
    const running = await repeat(round, server, source);
    device.giveRoom(); // so that the journal can be carried out after the cut
    return { folder, book: source.book, live: [source.token], running };
  },
};

/** The server itself fills the device. Creates that were answered 503 are sent again to the next server. */
const filledByServing: CutScenario = {
  name: "filled while it serves",
  isOnThinDevice: true,
  async attempt(round) {
    const { program, disk, random, totals } = round;
    const device = deviceOf(round);
    const folder = makeFolder(round);
    const token = await createToken(folder, { name: "first" });
    const book = new PlantBook({ hasLongNames: true });
    const server = new Server(program, folder);
    const port = await server.ready;
    if (port === undefined) throw new Error(`a start ${describeEnd(await server.ended)}`);
    disk.takeUsedRoom();
    device.fill(4 * random.below(100));
    const target = { port, token, book };
    const refused = await createUntilRefused(target);
    const reported = (running: readonly Run[]): Reported => {
      device.giveRoom(); // so that the journal can be carried out after the cut
      return { folder, book, live: [token], running };
    };
    if (await isServing(target)) {
      device.giveRoom();
      totals.faults.push(...(await replay(target, refused)));
      return reported([server.run]);
    }
    const { status } = await server.ended;
    if (status !== 1) totals.faults.push(`after a failed sync: expected status 1, got ${status}`);
    const next = await startUntilOneServes(round, folder);
    const nextPort = await next?.ready;
    if (next === undefined || nextPort === undefined) return reported([]);
    totals.faults.push(...(await replay({ port: nextPort, token, book }, refused)));
    return reported([next.run]);
  },
};

/** Whether the server has refused a write, and goes on. */
async function isServing({ port, token, book }: Target): Promise<boolean> {
  const connection = await Connection.open(port);
  const answer = await connection?.post(token, book.line(book.take()));
  connection?.close();
  return answer?.text.startsWith('{"error":50302,') === true;
}

const CLIENTS = 16;

/** Creates plants until none is stored any more; returns those that were answered 503. */
async function createUntilRefused(target: Target): Promise<number[]> {
  const { port, token, book } = target;
  const refused: number[] = [];
  const run = async () => {
    const connection = await Connection.open(port);
    for (;;) {
      const plant = book.take();
      const answer = await connection?.post(token, book.line(plant));
      if (answer?.status === 503) refused.push(plant);
      if (answer?.status !== 200) break;
      book.acknowledge(plant);
    }
    connection?.close();
  };
  await Promise.all(Array.from({ length: CLIENTS }, run));
  return refused;
}

/**
 * In half of the rounds the device gets room after a few starts.
 *
 * @param isForgotten whether the kernel drops the pages of the log after each start.
 * @returns the server that serves.
 */
async function startUntilOneServes(
  round: CutRound,
  folder: string,
  isForgotten = false,
): Promise<Server | undefined> {
  const { program, random, totals } = round;
  const startWithRoom = random.pick([STARTS_MAX + 1, 2 + random.below(3)]);
  for (let start = 1; start <= STARTS_MAX; start++) {
    if (start === startWithRoom) deviceOf(round).giveRoom();
    const server = new Server(program, folder);
    if ((await server.ready) !== undefined) return server;
    const ended = await server.ended;
    if (ended.status !== 3) {
      totals.faults.push(`start ${start}: expected status 3, it ${describeEnd(ended)}`);
    }
    if (isForgotten) execute("dd", `if=${logIn(folder)}`, "iflag=nocache", "count=0");
  }
  deviceOf(round).giveRoom();
  return undefined;
}

/** A folder whose own blocks have room, so that only those of new files are missing. */
function makeFolder({ disk }: CutRound): string {
  const folder = join(disk.folder, "data");
  mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, "lost+found"), "");
  return folder;
}

function deviceOf({ device }: CutRound): SmallDisk {
  if (device === undefined) throw new Error("expected a thin device");
  return device;
}

export const FULL_DEVICES: readonly CutScenario[] = [copiedToFull, filledByServing];
