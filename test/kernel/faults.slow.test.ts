/**
 * Faults of a real kernel: what a client receives, how a process ends, and what the next start makes of it.
 *
 * Each row has the fault; how it is made (by strace: CALL:INJECTION into the calls on the log, or on FILE@; a tmpfs
 * with options; a namespace of processes); what happens, step by step; and what the messages name. A number creates
 * this plant, a word is a deed below, and after the colon is the outcome: 200, an error number, or an exit status.
 */
import assert from "node:assert/strict";
import fs from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { describe, type TestContext, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { revokeToken } from "../../src/index.ts";
import { startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { logPath, readLog, writeLog } from "../support/stores.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import * as machine from "./machine.ts";
import { plant, Trial } from "./trial.ts";

const FAULTS = `
no room for two writes | write:error=ENOSPC:when=2..3 | start 1:200 2:50302 3:50302 2:200 4:200 stop:0 goes-on | ENOSPC
a quota that is used up | write:error=EDQUOT:when=2 | start 1:200 2:50302 2:200 stop:0 goes-on | EDQUOT
the limit of a file's size | | start 1:200 limit 2:50302 3:50302 unlimit 2:200 3:200 stop:0 goes-on | EFBIG
a full disk | tmpfs:size=256k | a-page start 1:200 fill 2:50302 3:50302 1:200 empty 2:200 stop:0 goes-on | ENOSPC
a write that fails | write:error=EIO:when=2 | start 1:200 2:50303 end:1 goes-on | EIO
a write that fails half-way | write:error=EIO:when=3+ | start 1:200 limit 2:50303 end:1 goes-on | EIO
a failed write that cannot be cut | write:error=EIO:when=3+ ftruncate:error=EIO | start 1:200 limit 2:50303 end:3 goes-on | EIO
a failed write whose cut is not synced | write:error=EIO:when=3+ fsync:error=EIO:when=2+ | start 1:200 limit 2:50303 end:3 goes-on | EIO
a log that is deleted | | start 1:200 delete-log 2:50303 end:1 serve:3 | plants.jsonl
a log that is replaced by a copy | | start 1:200 replace-log 2:50303 end:1 goes-on | plants.jsonl
a log that another program appends to | | start 1:200 append-log 2:50303 end:1 goes-on | plants.jsonl
a folder that is moved | | start 1:200 move 2:50303 end:1 | data
a lock that is removed | | start 1:200 remove-lock end:1 goes-on | lock
a slow disk | write:delay_enter=2000000 | one start slow:2 stop:0 goes-on |
a stored plant that cannot be read | pread64:error=EIO:when=2 | one start 1:50307 2:200 1:200 stop:0 | EIO
no descriptors | | start 1:200 take-descriptors await:50306 serve:1 export:1 give-descriptors await:200 2:200 stop:0 goes-on |
a folder in the place of the tokens | | start 1:200 hide-tokens await:50306 show-tokens await:200 stop:0 |
tokens that cannot be opened | tokens.jsonl@openat:error=ENFILE:when=3+ | start 1:200 await:50306 stop:0 | ENFILE
tokens that cannot be read | tokens.jsonl@pread64:error=EIO:when=9+ tokens.jsonl@read:error=EIO:when=9+ | start 1:200 await:50306 stop:0 | EIO
a revocation | | start 1:200 revoke 2s revoked:40102 1:200 stop:0 |
a revocation of a token while the server is frozen | | start 1:200 freeze revoke 2s thaw revoked:40102 1:200 stop:0 |
a second process | | start 1:200 serve:1 repair:1 import:1 export:0 token:0 2:200 stop:0 goes-on | serve
a holder in a container | container | start 1:200 serve:1 export:0 serve-contained:1 2:200 kill goes-on | serve
a holder outside of a container | containers | start 1:200 serve-contained:1 2:200 stop:0 goes-on | serve
a frozen holder | | start 1:200 freeze serve:1 export:1 backup:1 verify:1 token:0 thaw 2:200 stop:0 goes-on |
a frozen holder whose place is taken | | start 1:200 freeze remove-lock other late:true end:1 goes-on |
a killed holder, and ten rivals at once | | start 1:200 kill rivals:1 rivals:1 rivals:1 goes-on |
a start that cannot read the log | pread64:error=EIO | one serve:1 goes-on | EIO
a start that cannot sync the log | fsync:error=EIO | one serve:3 goes-on | EIO
a start that cannot sync the tokens | tokens.jsonl@fsync:error=EIO | one serve:3 goes-on | EIO
a start that cannot cut a torn end | ftruncate:error=EIO | torn serve:3 goes-on | EIO
a torn end, and no room for quarantine | tmpfs:size=64k | torn fill start 1:200 2:200 stop:0 empty goes-on | plants.jsonl
a read-only disk | tmpfs:size=1m | one read-only serve:1 repair:1 import:1 token:1 export:0 verify:0 | EROFS
a disk without a free inode | tmpfs:size=1m,nr_inodes=1 | serve:1 token:1 | ENOSPC
`;

/** A row while it runs. */
class World extends Trial {
  revoked = "";
  trace = () => "";
  readonly crowd: net.Socket[] = [];

  write(log: string): void {
    writeLog(this.folder, log);
    for (const line of log.split("\n").slice(0, -1)) this.acknowledged.add(line);
  }

  limit(what: string): void {
    machine.execute("prlimit", "--pid", String(this.pid), `--${what}:`);
  }
}

const DEEDS: Record<string, (world: World, expected: number) => unknown> = {
  one: (world) => world.write(`${plant(1)}\n`),
  /** Ends a few bytes before the end of a page. */
  "a-page": (world) => world.write(`${plant(9, "n".repeat(4030))}\n`),
  torn: (world) => world.write(`${plant(1)}\n{"id":2,"name":"${"Fern".repeat(2500)}`),
  start: (world) => world.start(),
  serve: (world) => world.run(["serve", "--port=0"]),
  /** In a network of its own, too. */
  "serve-contained": (world) =>
    world.run(["serve", "--port=0"], { wrapper: ["unshare", "--net", ...machine.CONTAINER] }),
  repair: (world) => world.run(["repair", "--yes"]),
  import: (world) => world.run(["import", "/dev/null"]),
  export: (world) => world.run(["export"]),
  verify: (world) => world.run(["verify"]),
  backup: (world) => world.run(["backup", join(makeFolder(world.t), "copy")]),
  token: (world) => world.run(["token", "create", "later"]),
  stop: (world) => world.end("SIGTERM"),
  kill: (world) => world.end("SIGKILL"),
  end: (world) => world.end(),
  async await(world, expected) {
    await until(`${expected}`, async () => (await world.create(plant(1))) === expected);
    return expected;
  },
  limit: (world) => world.limit(`fsize=${readLog(world.folder).length + 10}`),
  unlimit: (world) => world.limit("fsize=unlimited"),
  fill({ folder }) {
    const fill = () => fs.writeFileSync(join(folder, "filler"), Buffer.alloc(2 ** 20));
    assert.throws(fill, /ENOSPC/);
  },
  empty: ({ folder }) => fs.rmSync(join(folder, "filler")),
  "read-only": ({ folder }) => machine.execute("mount", "-o", "remount,ro", folder),
  "delete-log": ({ folder }) => fs.rmSync(logPath(folder)),
  "replace-log": ({ folder }) => {
    fs.copyFileSync(logPath(folder), join(folder, "copy"));
    fs.renameSync(join(folder, "copy"), logPath(folder));
  },
  "append-log": ({ folder }) => fs.appendFileSync(logPath(folder), `${plant(9)}\n`),
  move: ({ folder }) => fs.renameSync(folder, `${folder}.moved`),
  "remove-lock": ({ folder }) => {
    const locks = fs.readdirSync(folder).filter((name) => /^lock\.\d+$/.test(name));
    for (const name of locks) fs.rmSync(join(folder, name));
  },
  "hide-tokens": ({ folder }) => {
    fs.renameSync(join(folder, "tokens.jsonl"), join(folder, "away"));
    fs.mkdirSync(join(folder, "tokens.jsonl"));
  },
  "show-tokens": ({ folder }) => {
    fs.rmdirSync(join(folder, "tokens.jsonl"));
    fs.renameSync(join(folder, "away"), join(folder, "tokens.jsonl"));
  },
  "take-descriptors"(world) {
    let next = 0;
    while (fs.readdirSync(`/proc/${world.pid}/fd`).includes(String(next))) next++;
    world.limit(`nofile=${next + 4}`);
    const connect = () => {
      // A client that is turned away comes again, and takes what a poll of the tokens gave back.
      const socket = net.connect(world.server.port, "127.0.0.1").on("error", () => {});
      world.crowd.push(socket.on("close", () => setTimeout(connect, 5).unref()).resume());
    };
    for (let client = 0; client < 16; client++) connect();
  },
  "give-descriptors"(world) {
    for (const socket of world.crowd) socket.removeAllListeners("close").destroy();
    world.limit("nofile=1024");
  },
  async revoke(world) {
    await revokeToken(world.folder, "trial");
    world.revoked = world.token;
    await world.createToken("next");
  },
  revoked: (world) => world.create(plant(1), world.revoked),
  "2s": () => sleep(2000),
  async freeze({ pid }) {
    process.kill(pid, "SIGSTOP");
    await until("it has stopped", () => machine.statusField(pid, "State").startsWith("T"));
  },
  thaw: ({ pid }) => void process.kill(pid, "SIGCONT"),
  other: ({ t, folder }) => startServer(t, ["--data", folder]).then((other) => other.stop()),
  /** Whether a create that was sent before the thaw is refused. */
  async late(world) {
    const outcome = world.create(plant(2));
    process.kill(world.pid, "SIGCONT");
    return (await outcome) !== 200;
  },
  /** How many of ten servers serve. */
  async rivals({ t, folder }) {
    const start = () => startServer(t, ["--data", folder]);
    const starts = await Promise.allSettled(Array.from({ length: 10 }, start));
    const ready = starts.flatMap((start) => (start.status === "fulfilled" ? [start.value] : []));
    await Promise.all(ready.map((server) => server.stop("SIGKILL")));
    return ready.length;
  },
  /** The first that gets a response: a new plant, or a wrong token. */
  async slow(world) {
    const order: number[] = [];
    const create = async (id: number, token?: string) => {
      order.push((await world.create(plant(id), token)) && id);
    };
    await Promise.all([create(3), create(2, "pst_unknown")]);
    return order[0];
  },
  /** Another server has every acknowledged plant, and takes new ones. */
  async "goes-on"(world) {
    world.under = {};
    await world.start();
    for (const line of world.acknowledged) assert.equal(await world.create(line), 200, line);
    assert.equal(await world.create(plant(4_000_000_000)), 200);
    assert.equal(await world.end("SIGTERM"), 0, world.messages.join("\n"));
    world.assertKept();
  },
};

/** The world of a row; `undefined` if this machine cannot make its fault. */
function prepare(t: TestContext, made: string): World | undefined {
  if (made.startsWith("tmpfs:")) {
    const disk = machine.mountSmallDisk(t, made.slice("tmpfs:".length));
    return disk === undefined ? undefined : new World(t, disk);
  }
  const world = new World(t, join(makeFolder(t), "data"));
  fs.mkdirSync(world.folder, { mode: 0o700 });
  if (made === "") return world;
  if (made.startsWith("container")) {
    if (made === "container") world.under = { wrapper: machine.CONTAINER };
    return machine.canRun(t, "unshare", "--net", ...machine.CONTAINER, "true") ? world : undefined;
  }
  writeLog(world.folder, ""); // so that strace knows the file
  const [at = "plants.jsonl@"] = /^[^:]*@/.exec(made) ?? [];
  const faults = made.split(" ").map((fault) => fault.replace(at, ""));
  const { read, ...under } = machine.faulty(t, join(world.folder, at.slice(0, -1)), faults);
  Object.assign(world, { under, trace: read });
  return machine.canTrace(t) ? world : undefined;
}

async function run(t: TestContext, made: string, steps: string, names: string): Promise<void> {
  const world = prepare(t, made);
  if (world === undefined) return;
  if (/start|goes-on/.test(steps)) await world.createToken();
  const outcomes: string[] = [];
  for (const step of steps.split(" ")) {
    const [word = "", expected] = step.split(":");
    const deed = DEEDS[word] ?? (() => world.create(plant(Number(word))));
    const outcome = await deed(world, Number(expected));
    outcomes.push(expected === undefined ? word : `${word}:${outcome}`);
    if (["start", "serve"].includes(word)) world.under = {};
  }
  assert.equal(outcomes.join(" "), steps, world.messages.join("\n"));
  assert.match(world.messages.join("\n"), new RegExp(names));
  if (made.includes("error=")) assert.match(world.trace(), /INJECTED/);
}

describe("faults of a real kernel", { concurrency: 3 }, () => {
  for (const row of FAULTS.trim().split("\n")) {
    const [fault, made = "", steps = "", names = ""] = row.split("|").map((cell) => cell.trim());
    test(`${fault}: ${steps}`, TIMEOUT, (t) => run(t, made, steps, names));
  }
});
