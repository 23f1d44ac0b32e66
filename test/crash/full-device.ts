/**
 * A device that is full although its file system has room, as a thin volume can be. The kernel reports a
 * page that it could not write once, at the next sync, and marks it clean: from then on the page is right
 * only as long as it stays in memory, and no further sync fails.
 *
 * A supervisor starts the server until one start serves: what it serves must be on the disk. A start that
 * fails must end with 3. With 1, the supervisor would go on until a sync reports no error any more.
 */
import { spawnSync } from "node:child_process";
import { appendFileSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createToken } from "../../src/index.ts";
import { Connection } from "./connection.ts";
import {
  type CutRound,
  type CutScenario,
  failsToReportRevoked,
  lengthenTokenLog,
  REVOCATION,
  type Reported,
  repeat,
  type TokenCommand,
} from "./cut-scenarios.ts";
import { logIn, makeSource } from "./cut-source.ts";
import { replay, type Target } from "./load.ts";
import { execute, type LoopDisk, waitFor } from "./loop-disk.ts";
import { PlantBook } from "./plant-book.ts";
import { type Ended, runProgram, type Surroundings } from "./program.ts";
import { describeEnd, Server } from "./server.ts";
import type { SmallDisk } from "./small-disk.ts";
import { killing } from "./strace.ts";

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

/** The server itself fills the device. Creates that were not acknowledged are sent again to the next server. */
const filledByServing: CutScenario = {
  name: "filled while it serves",
  isOnThinDevice: true,
  attempt: (round) => fillByServing(round, {}, ({ status }) => status === 1),
};

/** It is killed when it is about to cut away what the failed write has left, as it may be at any moment. */
const filledThenKilled: CutScenario = {
  name: "filled, then killed",
  isOnThinDevice: true,
  attempt(round) {
    const log = logIn(folderOn(round.disk));
    const surroundings = killing(join(round.work, "trace"), log, "ftruncate");
    return fillByServing(round, surroundings, ({ signal }) => signal === "SIGKILL");
  },
};

async function fillByServing(
  round: CutRound,
  surroundings: Surroundings,
  isExpected: (ended: Ended) => boolean,
): Promise<Reported> {
  const { program, disk, random, totals } = round;
  const device = deviceOf(round);
  const folder = makeFolder(round);
  const token = await createToken(folder, { name: "first" });
  const book = new PlantBook({ hasLongNames: true });
  const server = new Server(program, folder, surroundings);
  const port = await server.ready;
  if (port === undefined) throw new Error(`a start ${describeEnd(await server.ended)}`);
  disk.takeUsedRoom();
  device.fill(4 * random.below(100));
  const unanswered = await createUntilRefused(device, { port, token, book });
  const first: Reported = { folder, book, live: [token] };
  if (unanswered.length === 0) {
    await server.kill(); // it got room before a sync failed
    return first;
  }
  const ended = await withRoomInTime(device, server.ended);
  const isRight = isExpected(ended);
  if (!isRight) totals.faults.push(`after a failed sync the server ${describeEnd(ended)}`);
  if (random.next() < 0.5) device.giveRoom();
  const next = await startUntilOneServes(round, folder);
  const nextPort = await next?.ready;
  device.giveRoom(); // also so that the journal can be carried out after the cut
  if (next === undefined || nextPort === undefined) return first;
  totals.faults.push(...(await replay({ port: nextPort, token, book }, unanswered)));
  return { ...first, running: [next.run] };
}

/** An editor revokes a token, and nobody syncs; in half of the rounds a server has tried to. */
const tokenEditedOnFull: CutScenario = {
  name: "token file edited on a full device",
  isOnThinDevice: true,
  async attempt(round) {
    const { program, disk, random, totals } = round;
    const device = deviceOf(round);
    const folder = makeFolder(round);
    const path = join(folder, "tokens.jsonl");
    const first = await createToken(folder, { name: "first" });
    const second = await createToken(folder, { name: "second" });
    const server = random.next() < 0.5 ? new Server(program, folder) : undefined;
    await server?.ready;
    disk.takeUsedRoom();
    device.fill(0);
    lengthenTokenLog(path);
    appendFileSync(path, `${REVOCATION}\n`);
    const hasWarned = () => server?.run.stderr.includes(path) ?? true;
    await waitFor(`a warning about ${path}`, hasWarned);
    const command = random.pick<TokenCommand>(["list", "revoke"]);
    const reports = () => failsToReportRevoked(round, folder, command);
    await withRoomInTime(device, reports());
    device.giveRoom();
    if ((await reports()) !== undefined) {
      // A list changes nothing: a command that does so replaces the file.
      await runProgram(program, ["token", "create", "third", "--data", folder]);
      const failure = await reports();
      if (failure !== undefined) totals.faults.push(`token ${command} ${describeEnd(failure)}`);
    }
    const running = server === undefined ? [] : [server.run];
    const book = new PlantBook({});
    return { folder, book, live: [first], revoked: [second], running };
  },
};

const PATIENCE_MS = 5_000;

/** XFS waits for ever if its own log has no room: then the device gets some. */
function withRoomInTime<T>(device: SmallDisk, result: Promise<T>): Promise<T> {
  const timer = setTimeout(() => device.giveRoom(), PATIENCE_MS);
  return result.finally(() => clearTimeout(timer));
}

const CLIENTS = 16;

/** Creates plants until none is stored any more, or there is room; returns those that were not acknowledged. */
async function createUntilRefused(device: SmallDisk, target: Target): Promise<number[]> {
  const { port, token, book } = target;
  const unanswered: number[] = [];
  const run = async () => {
    const connection = await Connection.open(port);
    while (!device.hasRoom) {
      const plant = book.take();
      const answer = await connection?.post(token, book.line(plant));
      if (answer?.status === 200) {
        book.acknowledge(plant);
        continue;
      }
      unanswered.push(plant);
      break;
    }
    connection?.close();
  };
  await withRoomInTime(device, Promise.all(Array.from({ length: CLIENTS }, run)));
  return unanswered;
}

/**
 * The device gets room for the last start; in half of the rounds for an earlier one.
 *
 * @param isForgotten whether the kernel drops the pages of the log after each start.
 * @returns the server that serves; `undefined` if none does.
 */
async function startUntilOneServes(
  round: CutRound,
  folder: string,
  isForgotten = false,
): Promise<Server | undefined> {
  const { program, random, totals } = round;
  const startWithRoom = random.pick([STARTS_MAX, 2 + random.below(3)]);
  for (let start = 1; start <= STARTS_MAX; start++) {
    if (start === startWithRoom) deviceOf(round).giveRoom();
    const server = new Server(program, folder);
    if ((await withRoomInTime(deviceOf(round), server.ready)) !== undefined) return server;
    const ended = await server.ended;
    // ext4 becomes read-only if its journal fails: nothing more can be shown.
    if (ended.status === 1 && ended.stderr.includes("(EROFS)")) break;
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
  const folder = folderOn(disk);
  mkdirSync(folder, { mode: 0o700 });
  writeFileSync(join(folder, "lost+found"), "");
  return folder;
}

function folderOn({ folder }: LoopDisk): string {
  return join(folder, "data");
}

function deviceOf({ device }: CutRound): SmallDisk {
  if (device === undefined) throw new Error("expected a thin device");
  return device;
}

export const FULL_DEVICES: readonly CutScenario[] = [
  copiedToFull,
  filledByServing,
  filledThenKilled,
  tokenEditedOnFull,
];
