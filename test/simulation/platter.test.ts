/** What the simulated disk does to a program that dies, loses its power, or is refused something. */
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import type { WritableFile } from "../../src/log/disk.ts";
import { SimulatedClock } from "./clock.ts";
import { DeadError, SimulatedDisk } from "./disk.ts";
import { type CutKind, Platter } from "./platter.ts";
import { Random } from "./random.ts";
import { type Rates, RULE_NAMES, RULES, RuleBook, type RuleName } from "./rules.ts";

const LOG = "/data/log";

class Machine {
  readonly clock: SimulatedClock;
  readonly rules: RuleBook;
  readonly random: Random;
  platter: Platter;
  disk: SimulatedDisk;

  constructor(seed = "a", rates: Rates = {}) {
    this.random = new Random(seed);
    this.clock = new SimulatedClock(this.random);
    this.rules = new RuleBook();
    this.platter = new Platter(this.clock, this.rules);
    this.platter.create("/data", "folder");
    this.platter.commitAll();
    this.rules.rates = rates;
    this.disk = this.#start();
  }

  #start(): SimulatedDisk {
    const { platter, clock, random, rules } = this;
    return new SimulatedDisk({ platter, clock, random, rules });
  }

  run<T>(work: () => Promise<T>): Promise<T> {
    return this.clock.run(work());
  }

  /** Runs until the process dies or the work is done. */
  async runToDeath(work: () => Promise<void>): Promise<void> {
    const done = work().catch((error) => {
      if (!this.disk.isDead) throw error;
    });
    await this.clock.run(Promise.race([done, this.disk.crashed]));
    this.disk.die();
    await this.clock.endWorld();
  }

  restart(kind: "kill" | "cut", cut: CutKind = "chance"): void {
    this.disk.die();
    this.platter = this.platter.crash(kind, this.random, cut);
    this.disk = this.#start();
  }

  text(filePath = LOG): string | undefined {
    const node = this.platter.find(filePath);
    return node?.kind === "file" ? node.bytes.toString() : undefined;
  }
}

async function openLog({ disk }: Machine, text = "", filePath = LOG): Promise<WritableFile> {
  const file = await disk.openForChanges(filePath);
  if (text !== "") await file.append(Buffer.from(text), 0);
  await disk.syncFolder(path.dirname(filePath));
  return file;
}

/** Texts that cuts of many seeds leave of what `prepare` does. */
async function afterCuts(
  prepare: (machine: Machine) => Promise<unknown>,
  rates: Rates = {},
): Promise<Set<string | undefined>> {
  const machine = new Machine("cuts", rates);
  await machine.run(() => prepare(machine));
  const texts = Array.from({ length: 200 }, (_, at) => {
    const node = machine.platter.crash("cut", new Random(`cut ${at}`)).find(LOG);
    return node?.kind === "file" ? node.bytes.toString() : undefined;
  });
  return new Set(texts);
}

test("a cut keeps what an append and a sync of its folder have promised", async () => {
  assert.deepEqual(await afterCuts((machine) => openLog(machine, "text")), new Set(["text"]));
});

test("a cut may take the name of a file whose bytes are durable", async () => {
  const texts = await afterCuts(async ({ disk }) => {
    await (await disk.openForChanges(LOG)).append(Buffer.from("text"), 0);
  });
  assert.deepEqual(texts, new Set([undefined, "text"]));
});

test("a kill leaves an append that is visible and not durable, and a cut may take it then", async () => {
  const machine = new Machine();
  const file = await machine.run(() => openLog(machine, "one"));
  machine.disk.crashAt(machine.disk.moments + 2);
  await machine.runToDeath(async () => {
    await file.append(Buffer.from("two"), 0);
  });
  machine.restart("kill");
  assert.equal(machine.text(), "onetwo");
  assert.equal(machine.platter.keeps(LOG, Buffer.from("one"), 0), true);
  assert.equal(machine.platter.keeps(LOG, Buffer.from("two"), 3), false);
  machine.restart("cut", "nothing");
  assert.equal(machine.text(), "one");
});

test("each sector that is not durable is new, old or zeros, and the length may come first", async () => {
  const texts = await afterCuts(async (machine) => {
    const file = await openLog(machine, "a".repeat(512));
    const over = Buffer.alloc(1536, "b");
    await file.overwrite(over, 0, 0);
  });
  const [a, b, zeros] = ["a", "b", "\0"].map((one) => one.repeat(512));
  for (const expected of [
    `${a}`,
    `${b}`,
    `${a}${b}${b}`,
    `${b}${zeros}${b}`,
    `${a}${zeros}${zeros}`,
  ]) {
    assert.ok(texts.has(expected), JSON.stringify(expected?.replace(/(.)\1+/g, "$1+")));
  }
});

test("a truncation is durable after a sync only", async () => {
  const cut = async (machine: Machine) => {
    const file = await openLog(machine, "long text");
    file.truncate(4);
    return file;
  };
  // The zeros after the cut may reach the disk before the length: ext4 writes data before it commits.
  const zeros = `long${"\0".repeat(5)}`;
  assert.deepEqual(await afterCuts(cut), new Set(["long", "long text", zeros]));
  const synced = await afterCuts(async (machine) => (await cut(machine)).sync());
  assert.deepEqual(synced, new Set(["long"]));
});

test("an append makes its own bytes durable, and no older overwrite elsewhere", async () => {
  const texts = await afterCuts(async (machine) => {
    const file = await openLog(machine, "a".repeat(1024));
    await file.overwrite(Buffer.from("b"), 0, 0);
    await file.append(Buffer.from("c"), 0);
  });
  const tail = `${"a".repeat(1023)}c`;
  assert.deepEqual(texts, new Set([`a${tail}`, `b${tail}`]));
});

test("what is written while a sync is under way is not covered by it", async () => {
  const texts = await afterCuts(async (machine) => {
    const file = await openLog(machine, "a");
    await file.overwrite(Buffer.from("b"), 0, 0);
    const applied = new Promise<void>((resolve) => {
      machine.disk.onMoment = (kind, call) => {
        if (kind === "applied" && call === "sync") resolve();
      };
    });
    const syncing = file.sync();
    await applied;
    await file.overwrite(Buffer.from("c"), 0, 0);
    await syncing;
  });
  assert.ok(!texts.has("a"));
});

test("a rename across folders happens in a cut as a whole", async () => {
  const machine = new Machine();
  await machine.run(async () => {
    machine.disk.makeFolder("/data/aside");
    await openLog(machine, "text", "/data/aside/log");
    await machine.disk.syncFolder("/data");
    machine.disk.rename("/data/aside/log", LOG);
  });
  const seen = new Set<string>();
  for (let at = 0; at < 50; at++) {
    const after = machine.platter.crash("cut", new Random(`${at}`));
    const names = [LOG, "/data/aside/log"].filter((name) => after.find(name) !== undefined);
    seen.add(names.join(" and "));
  }
  assert.deepEqual(seen, new Set([LOG, "/data/aside/log"]));
  await machine.run(() => machine.disk.syncFolder("/data"));
  assert.equal(machine.platter.crash("cut", machine.random, "nothing").find(LOG)?.nlink, 1);
});

test("names survive a cut in order, or as any subset", async () => {
  const prepare = async ({ disk }: Machine) => {
    for (const name of ["a", "b"]) disk.makeFolder(`/data/${name}`);
  };
  for (const [rates, expected] of [
    [{}, ["", "a", "a b"]],
    [{ "names: any subset": 1 }, ["", "a", "a b", "b"]],
  ] as const) {
    const machine = new Machine("names", rates);
    await machine.run(() => prepare(machine));
    const seen = new Set<string>();
    for (let at = 0; at < 50; at++) {
      const folder = machine.platter.crash("cut", new Random(`${at}`)).folder("/data", "list");
      seen.add([...folder.names.keys()].sort().join(" "));
    }
    assert.deepEqual([...seen].sort(), expected);
  }
});

test("a failed sync is reported once to each descriptor, and the next sync proves nothing", async () => {
  const machine = new Machine();
  await machine.run(async () => {
    const file = await openLog(machine, "a".repeat(2000));
    const other = await machine.disk.openForChanges(LOG);
    await file.overwrite(Buffer.alloc(2000, "b"), 0, 0);
    machine.rules.rates = {
      "sync: fails": 1,
      "sync: pages are gone": 0,
      "sync: pages are reverted": 0,
    };
    await assert.rejects(file.sync(), { code: "EIO" });
    machine.rules.rates = { "sync: lost pages leave the cache": 0 };
    await file.sync();
    await assert.rejects(other.sync(), { code: "EIO" });
    await other.sync();
    const late = await machine.disk.openForChanges(LOG);
    await late.sync();
  });
  assert.equal(machine.text(), "b".repeat(2000));
  assert.equal(machine.platter.keeps(LOG, Buffer.alloc(2000, "b"), 0), false);
  assert.notEqual(machine.platter.crash("cut", machine.random, "everything").find(LOG), undefined);
});

test("a new descriptor gets a failure that nobody got", async () => {
  const machine = new Machine();
  await machine.run(async () => {
    const file = await openLog(machine, "text");
    machine.rules.rates = {
      "sync: a write behind fails": 1,
      "sync: lost pages leave the cache": 0,
    };
    await file.overwrite(Buffer.from("T"), 0, 0);
    machine.rules.rates = { "sync: lost pages leave the cache": 0 };
    await file.close();
    const late = await machine.disk.openForChanges(LOG);
    await assert.rejects(late.sync(), { code: "EIO" });
    await (await machine.disk.openForChanges(LOG)).sync();
  });
});

test("a failure that nobody got is forgotten when its pages leave the cache", async () => {
  const machine = new Machine();
  await machine.run(async () => {
    const file = await openLog(machine, "text");
    machine.rules.rates = { "sync: a write behind fails": 1, "sync: pages are reverted": 0 };
    await file.overwrite(Buffer.alloc(4, "T"), 0, 0);
    await file.close();
    machine.rules.rates = { "sync: lost pages leave the cache": 1 };
    await (await machine.disk.openForChanges(LOG)).sync();
  });
  assert.equal(machine.platter.keeps(LOG, Buffer.from(machine.text() ?? ""), 0), true);
});

test("a cut may leave a part of the length that an append has added", async () => {
  const texts = await afterCuts(async (machine) => {
    const file = await openLog(machine, "a");
    file.append(Buffer.alloc(2000, "b"), 0);
    await new Promise<void>((resolve) => {
      machine.disk.onMoment = (kind) => kind === "applied" && resolve();
    });
  });
  const lengths = new Set([...texts].map((text) => text?.length));
  assert.deepEqual([...lengths].sort(), [1, 1024, 1536, 2001, 512]);
});

test("what a failed sync has lost is not on the disk, though it is read", async () => {
  const machine = new Machine("a", { "append: its sync fails": 1, "sync: pages are gone": 0 });
  const line = Buffer.alloc(5000, "a");
  await machine.run(async () => {
    const file = await machine.disk.openForChanges(LOG);
    machine.rules.rates = { ...machine.rules.rates, "sync: pages are reverted": 0 };
    await assert.rejects(file.append(line, 0), { code: "EIO" });
    assert.equal(await machine.disk.holds(LOG, line, 0), false);
  });
  assert.equal(machine.text()?.length, 5000);
});

test("without room an append is short, and the next one is refused", async () => {
  const machine = new Machine();
  machine.platter.bytesMax = 10;
  await machine.run(async () => {
    const file = await openLog(machine, "1234567");
    assert.equal(await file.append(Buffer.from("890ab"), 0), 3);
    await assert.rejects(file.append(Buffer.from("ab"), 0), { code: "ENOSPC" });
    assert.equal(await file.overwrite(Buffer.from("x"), 0, 0), 1);
    file.truncate(5);
    assert.equal(await file.append(Buffer.from("ab"), 0), 2);
    machine.platter.nodesMax = machine.platter.nodesUsed;
    assert.throws(() => machine.disk.makeFolder("/data/x"), { code: "ENOSPC" });
    machine.disk.unlink(LOG);
    machine.disk.makeFolder("/data/x");
    assert.equal(machine.platter.bytesUsed, 0);
  });
});

test("what is rotten stays so, until it is written again", async () => {
  const machine = new Machine();
  await machine.run(async () => {
    await openLog(machine, "a".repeat(600));
    const rot = machine.platter.rot(LOG, "rot: a bit", machine.random);
    assert.notEqual(machine.text(), "a".repeat(600));
    assert.ok(rot !== undefined && rot.offset < 600);
    machine.platter.rot(LOG, "rot: an unreadable sector", machine.random);
    for (let times = 0; times < 2; times++) {
      const file = await machine.disk.openForChanges(LOG);
      assert.throws(() => file.readNow(Buffer.alloc(600), 0), { code: "EIO" });
      machine.restart("cut");
    }
    const file = await machine.disk.openForChanges(LOG);
    await file.overwrite(Buffer.alloc(600, "b"), 0, 0);
    assert.equal(file.readNow(Buffer.alloc(600), 0), 600);
  });
});

test("of a dead process nothing returns, and calls that do not wait throw", async () => {
  const machine = new Machine();
  const file = await machine.run(() => openLog(machine, "text"));
  machine.disk.crashAt(machine.disk.moments + 2);
  assert.throws(() => machine.disk.makeFolder("/data/x"), DeadError);
  assert.notEqual(machine.platter.find("/data/x"), undefined); // it was applied
  assert.throws(() => machine.disk.find(LOG), DeadError);
  assert.throws(() => file.state(), DeadError);
  let returned = 0;
  const count = () => returned++;
  file.append(Buffer.from("x"), 0).then(count, count);
  machine.disk.syncFolder("/data").then(count, count);
  file.read(Buffer.alloc(1), 0, 1, 0, count);
  await assert.rejects(machine.clock.run(new Promise(() => {})), /no event is left/);
  assert.equal(returned, 0);
  assert.equal(machine.text(), "text");
});

test("a write that was under way may land after the process died, whole or in part", async () => {
  const seen = new Set<string | undefined>();
  for (let seed = 0; seed < 60; seed++) {
    const machine = new Machine(`${seed}`);
    const file = await machine.run(() => openLog(machine, "a"));
    machine.disk.crashAt(machine.disk.moments + 1);
    file.append(Buffer.from("bcd"), 0);
    seen.add(machine.text());
  }
  assert.deepEqual([...seen].sort(), ["a", "ab", "abc", "abcd"]);
});

const FAULTS = RULE_NAMES.filter(
  (name) =>
    !/^(others|lock|rot|harsh): |: any subset|wall clock|is frozen|time: never/.test(name) &&
    !/grows in part|nobody gets/.test(name), // they have tests of their own
);

/** Everything that happens rarely happens at this rate. */
function ratesOf(rate: number): Rates {
  return Object.fromEntries(
    FAULTS.filter((name) => RULES[name].rate === 0).map((name) => [name, rate]),
  );
}

/** Random work on a few files until the process dies. */
async function work({ disk, random }: Machine, life: Random): Promise<void> {
  const choice = random.fork(`work ${life.seed}`);
  const bytes = (count: number) => Buffer.alloc(count, 97 + choice.below(26));
  const names = ["/data/a", "/data/b", "/data/sub/c"];
  const use = async () => {
    const name = choice.pick(names);
    const file = await disk.openForChanges(name);
    for (let step = 0; step < 8; step++) {
      const size = Number(file.state().size);
      const at = choice.below(size + 1);
      const count = 1 + choice.below(1500);
      const steps: (() => unknown)[] = [
        () => file.append(bytes(count), 0),
        () => Promise.all([file.append(bytes(count), 0), file.sync()]),
        () => file.overwrite(bytes(Math.min(count, size)), 0, at),
        () => file.truncate(at),
        () => file.sync(),
        () => disk.syncFolder(path.dirname(name)),
        () => disk.rename(name, choice.pick(names)),
        () => disk.unlink(name),
        () => disk.list("/data"),
        () => file.readNow(Buffer.alloc(600), at),
        () =>
          new Promise<void>((resolve) => file.read(Buffer.alloc(600), 0, 600, at, () => resolve())),
      ];
      await Promise.resolve(choice.pick(steps)()).catch(() => {});
    }
    await file.close();
  };
  for (;;) {
    try {
      disk.find("/data/sub") ?? disk.makeFolder("/data/sub");
      await disk.syncFolder("/data");
      await Promise.all([use(), use()]);
    } catch (error) {
      if (error instanceof DeadError) return;
    }
  }
}

/** Some lives of the work above; after each, what the platter has promised to keep is compared with cuts. */
async function runLives(seed: string, rates: Rates, lives: number): Promise<Machine> {
  const machine = new Machine(seed, rates);
  for (let life = 0; life < lives; life++) {
    const random = machine.random.fork(`life ${life}`);
    machine.platter.bytesMax = random.chance(0.3) ? random.below(3000) : Number.POSITIVE_INFINITY;
    machine.platter.nodesMax = random.chance(0.2) ? 3 : Number.POSITIVE_INFINITY;
    machine.disk.crashAt(1 + random.below(400));
    await machine.runToDeath(() => work(machine, random));
    const { platter } = machine;
    for (const filePath of platter.files()) {
      const node = platter.find(filePath);
      if (node?.kind !== "file") continue;
      for (let from = 0; from < node.size; from += 300) {
        const part = Buffer.from(node.bytes.subarray(from, from + 300));
        if (!platter.keeps(filePath, part, from)) continue;
        for (const cut of ["nothing", "everything", "chance", "chance"] as const) {
          const found = platter.crash("cut", random.fork(cut), cut).find(filePath);
          const kept =
            found?.kind === "file" ? found.bytes.subarray(from, from + part.length) : undefined;
          assert.ok(kept?.equals(part), `${seed}, life ${life}: ${filePath} at ${from}, ${cut}`);
        }
      }
    }
    machine.restart(random.chance(0.5) ? "kill" : "cut");
  }
  return machine;
}

test("every cut keeps what the platter says that it keeps, whatever has failed", async () => {
  const rates = ratesOf(0.1);
  const counts: Partial<Record<RuleName, number>> = {};
  for (let seed = 0; seed < 20; seed++) {
    const machine = await runLives(
      `keeps ${seed}`,
      { ...rates, "syncFolder: fails for good": 0.01 },
      6,
    );
    for (const [name, count] of Object.entries(machine.rules.counts)) {
      counts[name as RuleName] = (counts[name as RuleName] ?? 0) + count;
    }
  }
  assert.deepEqual(
    FAULTS.filter((name) => counts[name] === undefined),
    [],
  );
});

test("the same seed gives the same life, to the byte", async () => {
  const rates = ratesOf(0.05);
  const lives = [await runLives("same", rates, 5), await runLives("same", rates, 5)];
  const [one, other] = lives.map(({ disk, clock, rules, platter }) => [
    disk.trace,
    clock.steadyMs(),
    clock.events,
    rules.counts,
    platter.files(),
  ]);
  assert.deepEqual(one, other);
});

test("the programs exist that show the rules on a real kernel", () => {
  const names = Object.values(RULES).flatMap(
    ({ shownBy }) => shownBy.match(/\btest\/[\w/-]+/g) ?? [],
  );
  for (const name of new Set(names)) {
    const folder = readdirSync(path.dirname(name));
    assert.ok(
      folder.some((file) => file.startsWith(`${path.basename(name)}.`)),
      name,
    );
  }
});
