/** What the simulated disk does to a program that dies, loses its power, or is refused something. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { type OpenFile, replaceDisk, disk as systemDisk } from "../../src/log/disk.ts";
import { LogFile } from "../../src/log/file.ts";
import { SimulatedClock } from "./clock.ts";
import { DeadError, SimulatedDisk } from "./disk.ts";
import { Others } from "./others.ts";
import { type CutKind, type FileNode, Platter, SECTOR_BYTES } from "./platter.ts";
import { Random } from "./random.ts";
import { type Rates, RULES, RuleBook } from "./rules.ts";

const LOG = "/data/log";

class Machine {
  readonly random: Random;
  readonly clock: SimulatedClock;
  readonly rules = new RuleBook();
  platter: Platter;
  disk: SimulatedDisk;

  constructor(rates: Rates = {}, seed = "a") {
    this.random = new Random(seed);
    this.clock = new SimulatedClock(this.random);
    this.platter = new Platter(this.clock, this.rules);
    this.platter.create("/data", "folder");
    this.platter.commitAll();
    this.rules.rates = rates;
    this.disk = new SimulatedDisk(this);
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.clock.run(work());
  }

  restart(kind: "kill" | "cut", cut: CutKind = "chance"): void {
    this.disk.die();
    this.platter = this.platter.crash(kind, this.random, cut);
    this.disk = new SimulatedDisk(this);
  }

  /** Waits until a call was applied, and has not returned. */
  applied(call: string): Promise<void> {
    return new Promise((resolve) => {
      this.disk.onMoment = (kind, name) => {
        if (kind === "applied" && name === call) resolve();
      };
    });
  }

  get text(): string | undefined {
    return textOf(this.platter, LOG);
  }
}

function textOf(platter: Platter, filePath: string): string | undefined {
  const node = platter.find(filePath);
  return node?.kind === "file" ? node.bytes.toString() : undefined;
}

function filesIn(platter: Platter, folderPath: string): string[] {
  const names = [...platter.folder(folderPath, "scandir").names];
  return names.flatMap(([name, { kind }]) => {
    const filePath = `${folderPath}/${name}`;
    return kind === "folder" ? filesIn(platter, filePath) : [filePath];
  });
}

/** Each file with what is in it, zeros as `_`, and a long run of one byte as `x*number`. */
function describe(platter: Platter): string {
  const files = filesIn(platter, "/data").map((filePath) => {
    const text = textOf(platter, filePath)?.replaceAll("\0", "_") ?? "";
    const short = text.replace(/(.)\1{9,}/g, (run, one) => `${one}*${run.length} `).trimEnd();
    return `${filePath.slice("/data/".length)}: ${short}`;
  });
  return files.sort().join(", ");
}

async function openLog({ disk }: Machine, text = ""): Promise<OpenFile> {
  const file = await disk.openForChanges(LOG);
  if (text !== "") await file.append(Buffer.from(text), 0);
  await disk.syncFolder("/data");
  return file;
}

const over = (file: OpenFile, text: string) => file.overwrite(Buffer.from(text), 0, 0);

interface Case {
  readonly rates?: Rates;
  /** What is not durable reaches the disk by chance, unless this says otherwise. */
  readonly kind?: CutKind;
  steps(machine: Machine): Promise<unknown>;
  /** What cuts leave. */
  readonly cuts: readonly string[];
}

const inOrder = async ({ disk }: Machine) => {
  for (const name of ["a", "b"]) await (await disk.openForChanges(`/data/${name}`)).close();
};

const CASES: Record<string, Case> = {
  "what an append and a sync of its folder have promised": {
    steps: (machine) => openLog(machine, "text"),
    cuts: ["log: text"],
  },
  "with or without its name a file whose bytes are durable": {
    steps: async ({ disk }) => (await disk.openForChanges(LOG)).append(Buffer.from("text"), 0),
    cuts: ["", "log: text"],
  },
  "each sector new, old or zeros, and perhaps the length first": {
    steps: async (machine) => over(await openLog(machine, "a".repeat(512)), "b".repeat(1024)),
    cuts: [
      "log: a*512",
      "log: a*512 _*512",
      "log: a*512 b*512",
      "log: b*1024",
      "log: b*512",
      "log: b*512 _*512",
    ],
  },
  "a part of the length that an append has added": {
    steps: async (machine) => {
      const file = await openLog(machine, "a");
      void file.append(Buffer.alloc(599, "b"), 0);
      await machine.applied("append");
    },
    cuts: [
      "log: a",
      "log: a_*511",
      "log: a_*511 b*88",
      "log: a_*599",
      "log: ab*511",
      "log: ab*511 _*88",
      "log: ab*599",
    ],
  },
  // The zeros after the cut may reach the disk before the length: ext4 writes data before it commits.
  "a truncation or what was there before it": {
    steps: async (machine) => (await openLog(machine, "long text")).truncate(4),
    cuts: ["log: long", "log: long text", "log: long_____"],
  },
  "a truncation that was synced": {
    steps: async (machine) => {
      const file = await openLog(machine, "long text");
      file.truncate(4);
      await file.sync();
    },
    cuts: ["log: long"],
  },
  "an append, with or without an older overwrite elsewhere": {
    steps: async (machine) => {
      const file = await openLog(machine, "a".repeat(512));
      await over(file, "b");
      await file.append(Buffer.from("c"), 0);
    },
    cuts: ["log: a*512 c", "log: ba*511 c"],
  },
  "what a sync began with, and nothing that was written meanwhile": {
    kind: "nothing",
    steps: async (machine) => {
      const file = await openLog(machine, "a");
      await over(file, "b");
      const syncing = file.sync();
      await machine.applied("sync");
      await over(file, "c");
      await syncing;
    },
    cuts: ["log: b"],
  },
  "a rename across folders as a whole": {
    steps: async ({ disk }) => {
      disk.makeFolder("/data/aside");
      await disk.openForChanges("/data/aside/log");
      for (const folder of ["/data/aside", "/data"]) await disk.syncFolder(folder);
      disk.rename("/data/aside/log", LOG);
    },
    cuts: ["aside/log: ", "log: "],
  },
  "a rename that failed, done or not": {
    rates: { "names: a change fails": 1 },
    kind: "everything",
    steps: async ({ disk }) => {
      await disk.openForChanges("/data/old");
      assert.throws(() => disk.rename("/data/old", "/data/new"));
    },
    cuts: ["new: ", "old: "],
  },
  "the first names that were made": { steps: inOrder, cuts: ["", "a: ", "a: , b: "] },
  "any of the names that were made": {
    rates: { "names: any subset": 1 },
    steps: inOrder,
    cuts: ["", "a: ", "a: , b: ", "b: "],
  },
  "the first names that were made, if the sync of the folder fails": {
    rates: { "syncFolder: fails": 1 },
    kind: "nothing",
    steps: async (machine) => {
      await inOrder(machine);
      await assert.rejects(machine.disk.syncFolder("/data"), { code: "EIO" });
    },
    cuts: ["", "a: ", "a: , b: "],
  },
};

for (const [name, { rates, kind, steps, cuts }] of Object.entries(CASES)) {
  test(`a cut leaves ${name}`, async () => {
    const found = new Set<string>();
    for (let seed = 0; seed < 10; seed++) {
      const machine = new Machine(rates, `${seed}`);
      await machine.run(() => steps(machine));
      const { platter, text = "" } = machine;
      const after = Array.from({ length: 50 }, (_, at) =>
        platter.crash("cut", new Random(`${seed} ${at}`), kind),
      );
      for (const one of after) found.add(describe(one));
      const isKept = after.every((one) => textOf(one, LOG)?.startsWith(text));
      assert.equal(platter.keeps(LOG, Buffer.from(text), 0), isKept);
    }
    assert.deepEqual([...found].sort(), cuts);
  });
}

test("a kill leaves an append that is visible and not durable, and a cut may take it then", async () => {
  const machine = new Machine();
  await machine.run(async () => {
    const file = await openLog(machine, "one");
    void file.append(Buffer.from("two"), 0);
    await machine.applied("append");
  });
  machine.restart("kill");
  assert.equal(machine.text, "onetwo");
  assert.equal(machine.platter.keeps(LOG, Buffer.from("one"), 0), true);
  assert.equal(machine.platter.keeps(LOG, Buffer.from("two"), 3), false);
  machine.restart("cut", "nothing");
  assert.equal(machine.text, "one");
});

test("a sync that began earlier and ends later does not bring older bytes back", () => {
  const { platter } = new Machine();
  const file = platter.create("/file", "file") as FileNode;
  file.write(Buffer.from("one"), 0);
  const earlier = file.dirt();
  file.write(Buffer.from("two"), 3);
  file.commit(file.dirt());
  file.commit(earlier);
  assert.equal(file.durable.toString(), "onetwo");
  assert.equal(file.isDurable, true);
});

test("a failed sync is reported once to each descriptor, and the next sync proves nothing", async () => {
  const machine = new Machine({ "sync: pages are gone": 0, "sync: pages are reverted": 0 });
  const { disk, platter, rules } = machine;
  const bytes = Buffer.alloc(2000, "b");
  await machine.run(async () => {
    const file = await openLog(machine, "a".repeat(2000));
    const other = await disk.openForChanges(LOG);
    await over(file, bytes.toString());
    const lost: unknown[] = [];
    platter.onLoss = (each) => lost.push(each);
    rules.rates = { ...rules.rates, "sync: fails": 1 };
    await assert.rejects(file.sync(), { code: "EIO" });
    rules.rates = { "sync: lost pages leave the cache": 0 };
    await file.sync();
    await assert.rejects(other.sync(), { code: "EIO" });
    for (const each of [other, await disk.openForChanges(LOG)]) await each.sync();
    assert.deepEqual(lost, [platter.find(LOG)]);
    assert.equal(await disk.holds(LOG, bytes, 0), false);
  });
  assert.equal(machine.text, bytes.toString());
  assert.equal(platter.keeps(LOG, bytes, 0), false);
});

test("a new descriptor gets a failure that nobody got, unless its pages have left the cache", async () => {
  for (const leaves of [0, 1]) {
    const machine = new Machine();
    const calm = { "sync: lost pages leave the cache": leaves, "sync: pages are reverted": 0 };
    await machine.run(async () => {
      const file = await openLog(machine, "text");
      machine.rules.rates = { ...calm, "sync: a write behind fails": 1 };
      await over(file, "TTTT");
      machine.rules.rates = calm;
      await file.close();
      const late = await machine.disk.openForChanges(LOG);
      if (leaves === 0) await assert.rejects(late.sync(), { code: "EIO" });
      await late.sync();
    });
    const isKept = machine.platter.keeps(LOG, Buffer.from(machine.text ?? ""), 0);
    assert.equal(isKept, leaves === 1);
  }
});

test("without room an append is short, and the next one is refused", async () => {
  const machine = new Machine();
  const { disk, platter } = machine;
  platter.bytesMax = 600;
  await machine.run(async () => {
    const file = await openLog(machine, "x".repeat(500));
    assert.equal(await file.append(Buffer.alloc(200, "y"), 0), SECTOR_BYTES - 500);
    await assert.rejects(file.append(Buffer.alloc(200, "y"), 0), { code: "ENOSPC" });
    assert.equal(await over(file, "x"), 1);
    file.truncate(5);
    assert.equal(await file.append(Buffer.from("ab"), 0), 2);
    platter.nodesMax = platter.nodesUsed;
    assert.throws(() => disk.makeFolder("/data/x"), { code: "ENOSPC" });
    disk.unlink(LOG);
    disk.makeFolder("/data/x");
    assert.equal(platter.bytesUsed, 0);
  });
});

test("what is rotten stays so, until it is written again", async () => {
  const machine = new Machine();
  const { random } = machine;
  const bytes = Buffer.alloc(600, "a");
  await machine.run(async () => {
    await openLog(machine, bytes.toString());
    machine.platter.rot(LOG, "rot: a bit", random);
    assert.notEqual(machine.text, bytes.toString());
    const rot = machine.platter.rot(LOG, "rot: a sector of zeros", random);
    assert.equal(machine.text?.indexOf("\0"), rot?.offset);
    machine.platter.rot(LOG, "rot: an unreadable sector", random);
    for (let times = 0; times < 2; times++) {
      const file = await machine.disk.openForChanges(LOG);
      assert.throws(() => file.readNow(Buffer.alloc(600), 0), { code: "EIO" });
      assert.equal(machine.platter.keeps(LOG, Buffer.from(machine.text ?? ""), 0), false);
      machine.restart("cut");
    }
    const file = await machine.disk.openForChanges(LOG);
    await over(file, bytes.toString());
    assert.equal(file.readNow(Buffer.alloc(600), 0), 600);
  });
});

test("of a dead process nothing returns, and calls that do not wait throw", async () => {
  const machine = new Machine();
  const { disk, platter } = machine;
  const file = await machine.run(() => openLog(machine, "text"));
  disk.crashAt(disk.moments + 2);
  assert.throws(() => disk.makeFolder("/data/x"), DeadError);
  assert.notEqual(platter.find("/data/x"), undefined); // it was applied
  assert.throws(() => disk.find(LOG), DeadError);
  assert.throws(() => file.state(), DeadError);
  let returned = 0;
  const count = () => returned++;
  file.append(Buffer.from("x"), 0).then(count, count);
  disk.syncFolder("/data").then(count, count);
  file.read(Buffer.alloc(1), 0, 1, 0, count);
  await assert.rejects(machine.clock.run(new Promise(() => {})), /no event is left/);
  assert.equal(returned, 0);
  assert.equal(machine.text, "text");
});

test("a write that was under way may land after the process died, whole or in part", async () => {
  const seen = new Set<string | undefined>();
  for (let seed = 0; seed < 60; seed++) {
    const machine = new Machine({}, `${seed}`);
    const file = await machine.run(() => openLog(machine, "a"));
    machine.disk.crashAt(machine.disk.moments + 1);
    void file.append(Buffer.from("bcd"), 0);
    seen.add(machine.text);
  }
  assert.deepEqual([...seen].sort(), ["a", "ab", "abc", "abcd"]);
});

test("a cut brings nothing of an append back that was refused after a part of it was durable", async (t) => {
  const machine = new Machine();
  const { disk, platter, rules } = machine;
  const before = systemDisk;
  t.after(() => replaceDisk(before));
  replaceDisk(disk);
  await machine.run(async () => {
    const file = await LogFile.open(LOG);
    rules.rates = { "append: a short count": 1 };
    disk.onMoment = (kind, call) => {
      if (call === "append" && kind === "returned") rules.rates = { "append: no room": 1 };
    };
    const { outcome } = await file.append(Buffer.alloc(2000, "x"));
    assert.equal(outcome, "refused");
  });
  assert.equal((platter.find(LOG) as FileNode).isDurable, true);
  assert.equal(machine.text, "");
});

test("bytes that another program appends in the middle of an append that fails are not cut", async (t) => {
  const machine = new Machine();
  const { disk, platter, random, rules } = machine;
  const others = new Others(platter, random);
  const before = systemDisk;
  t.after(() => replaceDisk(before));
  replaceDisk(disk);
  await machine.run(async () => {
    const file = await LogFile.open(LOG);
    disk.onMoment = (kind, call, filePath) => {
      if (call !== "append") return;
      if (kind === "issued") rules.rates = { "append: no room": 1 };
      else others.appendPastLock(filePath, Buffer.from("theirs\n"));
    };
    const { outcome } = await file.append(Buffer.from("a longer line of the process\n"));
    assert.equal(outcome, "unknown");
  });
  assert.equal(machine.text, "theirs\n");
});

test("the programs exist that show the rules on a real kernel", () => {
  const shown = Object.values(RULES).map(({ shownBy }) => shownBy);
  for (const [name] of shown.join("\n").matchAll(/\btest\/[\w/-]+/g)) {
    const files = [".ts", ".test.ts", ".slow.test.ts"].map((end) => `${name}${end}`);
    assert.ok(files.some(existsSync), name);
  }
  const program = readFileSync("test/crash/run.ts", "utf8");
  for (const [, option] of shown.join("\n").matchAll(/npm run crash -- (--[\w-]+)/g)) {
    assert.ok(program.includes(`  ${option} `), option);
  }
});
