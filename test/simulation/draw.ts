/**
 * Draws the plan of a life from its seed, before the life begins.
 *
 * Invariants. Each round and each command draws from a source that its number names: if one is taken out of a
 * plan, the others stay. Lives differ in what they do often and in what they leave out (swarm testing), because
 * in a life of everything the few steps that a fault needs seldom follow each other.
 */
import { Random } from "./random.ts";
import { kindOf, type Rates, RULE_NAMES, RULES, type RuleName } from "./rules.ts";
import type {
  Command,
  Edit,
  Intrusion,
  LifePlan,
  PlantChoice,
  RoundEnd,
  RoundPlan,
} from "./work.ts";

/** How often each of some things is drawn, relative to the others. */
type Weights<K extends string> = Readonly<Record<K, number>>;

/** What a client or an operator does, as one command or as several that belong together. */
const ROUTINES = {
  create: 40,
  get: 4,
  list: 4,
  import: 4,
  "read a folder": 4,
  "import folder": 2,
  backup: 4,
  "backup into": 3,
  "create token": 4,
  "revoke token": 2,
  "list tokens": 1,
  "import tokens": 2,
  look: 4,
  "revoke and look": 4,
  "spoil tokens and look": 2,
  "start another": 0.5,
  rest: 3,
  freeze: 1,
  "set clock": 1,
  intrude: 4,
};
type Routine = keyof typeof ROUTINES;

const INTRUSIONS: Weights<Intrusion> = {
  append: 4,
  "append amid an append": 4,
  "remove log": 1,
  "replace log": 1,
  "cut log": 1,
  "remove lock": 1,
  "edit tokens": 2,
  "edit tokens, no line feed": 1,
  "erase token": 1,
  "remove tokens": 0.5,
  "spoil tokens": 0.2,
  "mend tokens": 0.2,
};

const EDITS: Weights<Edit["edit"]> = {
  append: 4,
  replace: 1,
  "copy folder": 2,
  "move folder": 1,
  "change line": 1,
  "remove line": 1,
  "repeat line": 1,
  "old checkpoint": 1,
  "remove checkpoint": 1,
  "remove log": 0.5,
  "cut log": 1,
  "edit tokens": 1,
  rot: 3,
  sync: 1,
  "cut power": 1,
};

const ENDS: Weights<RoundEnd["how"]> = { stop: 1, kill: 2, cut: 3, "kill and cut": 1 };

/** Where a process dies: at a moment of any call, or of a call that changes files. */
const CALLS: Weights<RoundEnd["of"]> = {
  "any call": 8,
  append: 1,
  overwrite: 2,
  truncate: 1,
  sync: 1,
  syncFolder: 1,
  openForChanges: 1,
  rename: 1,
  link: 0.5,
  unlink: 1,
};

/** Of a theme: plants of several sectors, and what is done before a start. */
const [LONG, RESTORES, REPAIRS] = ["long plants", "restores", "repairs"];
const LONG_CREATES: readonly string[] = ["create", "kill", LONG];
const NO_ROOM: readonly RuleName[] = ["append: no room", "append: a short count"];

/** What a life does often. */
interface Habits {
  readonly plants: number;
  readonly routines: Weights<Routine>;
  readonly intrusions: Weights<Intrusion>;
  readonly edits: Weights<Edit["edit"]>;
  readonly ends: Weights<RoundEnd["how"]>;
  readonly calls: Weights<RoundEnd["of"]>;
  /** How probable it is that others change the folder before a round. */
  readonly editing: number;
  readonly commandsMax: number;
  /** How probable each is before a start. */
  readonly restores: number;
  readonly repairs: number;
}

/** What belongs together in most lives. */
interface Theme {
  /** What is done often, of any of the tables above. */
  readonly often: readonly string[];
  /** What fails often. */
  readonly fails: readonly RuleName[];
}

const THEMES: readonly Theme[] = [
  // What a sync that failed leaves, for the next start.
  { often: LONG_CREATES, fails: ["append: its sync fails", "truncate: fails"] },
  { often: [...LONG_CREATES, "truncate"], fails: ["append: its sync fails", "truncate: fails"] },
  { often: ["append", "replace", "kill", "sync"], fails: ["sync: fails"] },
  { often: ["append", "kill", "sync"], fails: ["sync: a write behind fails"] },
  // What other processes read while an append is under way.
  {
    often: ["create", "backup", "read a folder", "cut"],
    fails: ["time: an append is slow", "append: its sync fails"],
  },
  // What a cut leaves of long lines, and a cut amid their mend.
  { often: ["create", "cut", "append", "overwrite", "sync", LONG], fails: [] },
  { often: ["create", "append", "append amid an append"], fails: [...NO_ROOM] },
  {
    often: ["edit tokens", "create token", "list tokens", "revoke and look"],
    fails: ["sync: fails"],
  },
  { often: ["create token", "import tokens", "append", "cut"], fails: [...NO_ROOM] },
  { often: ["revoke and look", "spoil tokens and look", "look"], fails: [] },
  { often: ["look", "rest", "revoke token"], fails: ["time: never", "read: fails"] },
  {
    often: ["create token", "revoke token", "list tokens", "truncate", "kill"],
    fails: ["append: its sync fails", "truncate: fails"],
  },
  {
    often: ["create token", "revoke token", "list tokens", "append", "cut"],
    fails: ["append: quota"],
  },
  { often: ["create token", "import tokens", "kill", "openForChanges"], fails: ["sync: fails"] },
  { often: ["import tokens", "append", "cut"], fails: [] },
  { often: ["create", "import", "append", "cut", LONG], fails: NO_ROOM },
  { often: ["create", "start another"], fails: [] },
  { often: ["backup", "backup into", "unlink", "rename", "cut"], fails: [] },
  { often: ["backup", RESTORES, "rename", "syncFolder", "cut"], fails: ["syncFolder: fails"] },
  { often: ["change line", "append", REPAIRS, "rename", "link", "unlink", "cut"], fails: [] },
];

export function drawPlan(seed: string): LifePlan {
  const random = new Random(seed).fork("plan");
  const theme = random.chance(0.6) ? random.pick(THEMES) : undefined;
  const habits = drawHabits(random.fork("habits"), theme);
  const rounds = random.between(8, 36);
  const isLong = theme?.often.includes(LONG) === true;
  return {
    seed,
    rates: drawRates(random.fork("rates"), theme),
    plantBytesMax: isLong ? 1536 : random.pick([0, 60, 300, 700, 1536]),
    batchBytesMax: random.pick([1024 * 1024, 1024 * 1024, 512, 2048]),
    queueBytesMax: random.pick([4 * 1024 * 1024, 4 * 1024 * 1024, 1500]),
    rounds: Array.from({ length: rounds }, (_, number) =>
      drawRound(random.fork(`round ${number}`), number, habits),
    ),
  };
}

function drawHabits(random: Random, theme?: Theme): Habits {
  const often = new Set(theme?.often);
  const share = (name: string) => (often.has(name) ? 0.4 : random.pick([0, 0.04, 0.04, 0.4]));
  return {
    plants: random.between(20, 100),
    routines: vary(random.fork("routines"), ROUTINES, often),
    intrusions: vary(random.fork("intrusions"), INTRUSIONS, often),
    edits: vary(random.fork("edits"), EDITS, often),
    ends: vary(random.fork("ends"), ENDS, often),
    calls: vary(random.fork("calls"), CALLS, often),
    editing: random.pick([0, 0.05, 0.15, 0.5]),
    commandsMax: random.pick([5, 10, 20]),
    restores: share(RESTORES),
    repairs: share(REPAIRS),
  };
}

/** Some are left out, others come far more often. */
function vary<K extends string>(
  random: Random,
  weights: Weights<K>,
  often: ReadonlySet<string>,
): Weights<K> {
  const factor = (name: string) => (often.has(name) ? 8 : random.pick([0, 0.3, 1, 1, 1, 8]));
  const varied = Object.entries<number>(weights).map(([name, weight]) => [
    name,
    weight * factor(name),
  ]);
  return varied.some(([, weight]) => Number(weight) > 0) ? Object.fromEntries(varied) : weights;
}

function choose<K extends string>(random: Random, weights: Weights<K>): K {
  const entries = Object.entries(weights) as [K, number][];
  let left = random.next() * entries.reduce((sum, [, weight]) => sum + weight, 0);
  const found = entries.find(([, weight]) => {
    left -= weight;
    return left < 0;
  });
  return (found ?? (entries[0] as [K, number]))[0];
}

/** Rules that are switched on by what is done in a life, or by another rule. */
const DONE_BY_LIFE = /^(others|rot|holds|lock: its entry|time: (the|an))/;
/** After these little else happens. */
const LASTING = /^(time: never|syncFolder: fails for good)/;

/**
 * In a calm life nothing fails but the power and the process. In others many things fail now and then, or a few of
 * them often.
 */
function drawRates(random: Random, theme?: Theme): Rates {
  const rates: Partial<Record<RuleName, number>> = {};
  const faults = RULE_NAMES.filter((name) => RULES[name].rate === 0 && !DONE_BY_LIFE.test(name));
  const isHarsh = (name: RuleName) => kindOf(name) === "harm";
  if (random.chance(0.06)) {
    for (const name of faults.filter(isHarsh)) rates[name] = random.pick([0.02, 0.2]);
  }
  const others = faults.filter((name) => !isHarsh(name));
  const density = theme === undefined ? random.pick([0, 0, 0.1, 0.3, 1]) : 0;
  for (const name of others) {
    if (random.chance(density)) rates[name] = random.pick([0.001, 0.005, 0.02]);
  }
  const often = density === 1 ? 0 : random.between(0, 2);
  for (const name of theme?.fails ?? random.shuffle(others).slice(0, often)) {
    rates[name] = LASTING.test(name) ? 0.02 : random.pick([0.1, 0.3, 0.5]);
  }
  // A start reads so often that none would find what the cache has kept.
  rates["sync: lost pages leave the cache"] = random.pick([0, 0.02, 0.5]);
  const isOfSyncs = theme?.fails.some((name) => name.includes("sync")) === true;
  if (random.chance(isOfSyncs ? 0.5 : 0.1)) {
    rates["holds: the system cannot tell"] = 1;
    rates["sync: a rewrite in place stays lost"] = 0; // the program cannot know it
  }
  return rates;
}

function drawRound(random: Random, number: number, habits: Habits): RoundPlan {
  const count = random.pick([0, 2, habits.commandsMax]);
  const before = [
    ...(random.chance(0.15) ? ["verify" as const] : []),
    ...(random.chance(habits.restores) ? ["restore" as const] : []),
    ...(random.chance(habits.repairs) ? ["repair" as const] : []),
  ];
  return {
    number,
    isCalm: random.chance(0.4),
    room: random.chance(0.06) ? random.pick([1, 600, 2500, 6000]) : 0,
    edits: random.chance(habits.editing)
      ? Array.from({ length: random.between(1, 2) }, () => drawEdit(random, habits))
      : [],
    before,
    remedy: random.pick(["repair", "repair", "restore", "start anew"]),
    commands: Array.from({ length: count }, (_, at) =>
      drawRoutine(random.fork(`command ${at}`), at * ROUTINE_MAX, habits),
    ).flat(),
    end: drawEnd(
      random,
      habits,
      before.some((step) => step !== "verify"),
    ),
  };
}

/** @param isEarly something is done before the start amid which a crash is wanted. */
function drawEnd(random: Random, { ends, calls }: Habits, isEarly: boolean): RoundEnd {
  const how = choose(random, ends);
  const of = choose(random, calls);
  let moment = random.between(1, random.pick([3, 9, 30]));
  if (random.chance(0.4)) moment = 0;
  else if (of === "any call") {
    // A start takes some 150.
    moment = isEarly || random.chance(0.5) ? random.between(1, 200) : random.between(150, 900);
  }
  return { how, of, moment, cut: random.pick(["chance", "chance", "nothing", "everything"]) };
}

function drawPlant(random: Random, { plants }: Habits): PlantChoice {
  return { number: random.below(plants), version: random.chance(0.1) ? 1 : 0 };
}

function drawPlants(random: Random, habits: Habits, max: number): PlantChoice[] {
  return Array.from({ length: random.between(1, max) }, () => drawPlant(random, habits));
}

/** The most commands of a routine. */
const ROUTINE_MAX = 8;
const NAMES = ["anna", "ben", "cleo", "dora"];

/** What a command does, without who does it and when. */
type Act = Command extends infer C
  ? C extends Command
    ? Omit<C, "number" | "client" | "waitMs">
    : never
  : never;

function drawRoutine(random: Random, number: number, habits: Habits): Command[] {
  const client = random.below(3);
  const waitMs = random.chance(0.7) ? random.below(3) : random.below(300);
  return actsOf(random, habits).map(
    (act, at) =>
      ({ number: number + at, client, waitMs: at === 0 ? waitMs : 0, ...act }) as Command,
  );
}

function actsOf(random: Random, habits: Habits): Act[] {
  const act = choose(random, habits.routines);
  const name = random.pick(NAMES);
  const ms = random.pick([50, 500, 2100, 2100, 11_000]);
  const plant = drawPlant(random, habits);
  switch (act) {
    case "create":
      return [{ act, plants: drawPlants(random, habits, 6) }];
    case "import":
      return [{ act, plants: drawPlants(random, habits, 12) }];
    case "get":
    case "list":
      return [{ act, plant: plant.number }];
    case "read a folder":
      return [{ act: random.pick(["export", "export", "verify"]) }];
    case "backup into":
      return [{ act, keep: random.between(1, 3) }];
    case "create token":
    case "revoke token":
      return [{ act, name }];
    case "rest":
    case "freeze":
    case "set clock":
      return [{ act, ms }];
    case "intrude":
      return [{ act, how: choose(random, habits.intrusions), plant }];
    case "revoke and look":
      return lookAfter(random, name, [
        random.chance(0.5)
          ? { act: "revoke token", name }
          : {
              act: "intrude",
              how: random.pick([
                "edit tokens",
                "edit tokens, no line feed",
                "erase token",
                "remove tokens",
              ]),
              plant,
            },
      ]);
    case "spoil tokens and look":
      return [
        ...lookAfter(random, name, [{ act: "intrude", how: "spoil tokens", plant }]),
        { act: "intrude", how: "mend tokens", plant },
      ];
    default:
      return [{ act }];
  }
}

/** A change of tokens, perhaps of a file that a server has at rest, has to be in force after 2 s. */
function lookAfter(random: Random, name: string, changes: Act[]): Act[] {
  const rest: Act = { act: "rest", ms: 2100 };
  const isAtRest = random.chance(0.5);
  const list: Act[] = random.chance(0.5) ? [{ act: "list tokens" }] : [];
  const before: Act[] = isAtRest ? [{ act: "create token", name }, rest, rest] : [];
  return [...before, ...changes, ...list, rest, { act: "look" }];
}

function drawEdit(random: Random, habits: Habits): Edit {
  const edit = choose(random, habits.edits);
  const line = random.below(100);
  switch (edit) {
    case "append":
      return {
        edit,
        plants: drawPlants(random, habits, 4),
        lacks: random.pick(["nothing", "its line feed", "a third"]),
      };
    case "replace":
      return { edit, plants: drawPlants(random, habits, 4) };
    case "change line":
    case "remove line":
    case "repeat line":
    case "cut log":
    case "edit tokens":
      return { edit, line };
    case "rot":
      return {
        edit,
        file: random.pick(["log", "log", "checkpoint", "checkpoint", "tokens"]),
        place: random.below(1_000_000),
      };
    default:
      return { edit };
  }
}
