/**
 * What happens in a life, drawn from its seed before it begins: a plan, which can be edited and run again.
 *
 * Invariants. A plan is JSON. Each round and each command has a number that names its chance, so one that is
 * taken out shifts no other.
 */
import type { NewPlant } from "../../src/core/plant.ts";
import { contentOf } from "./image.ts";
import type { CutKind } from "./platter.ts";
import { Random } from "./random.ts";
import { type Rates, RULE_NAMES, RULES, type RuleName } from "./rules.ts";

/** A plant of a life. Another version of it has the same id, and is a conflict. */
export interface PlantChoice {
  readonly number: number;
  readonly version: number;
}

/** What a client or an operator does while the server runs. */
export type Command = {
  readonly number: number;
  /** The commands of one client follow each other. */
  readonly client: number;
  readonly waitMs: number;
} & (
  | { readonly act: "create" | "import"; readonly plants: readonly PlantChoice[] }
  | { readonly act: "get" | "list"; readonly plant: number }
  | { readonly act: "export" | "verify" | "import folder" | "backup" | "read folder" | "read all" }
  | { readonly act: "backup into"; readonly keep: number }
  | { readonly act: "create token" | "revoke token"; readonly name: string }
  | { readonly act: "list tokens" | "import tokens" | "look" | "start another" }
  | { readonly act: "rest" | "freeze" | "set clock"; readonly ms: number }
  | { readonly act: "intrude"; readonly how: Intrusion; readonly plant: PlantChoice }
);

/** What another program does to a folder that a server serves. */
export type Intrusion =
  | "append"
  | "remove log"
  | "replace log"
  | "cut log"
  | "remove lock"
  | "edit tokens";

/** What another program does to a folder that nobody serves. None of them syncs. */
export type Edit =
  | { readonly edit: "append"; readonly plants: readonly PlantChoice[]; readonly isTorn: boolean }
  | { readonly edit: "change line" | "remove line" | "repeat line"; readonly line: number }
  | { readonly edit: "replace"; readonly plants: readonly PlantChoice[] }
  | {
      readonly edit:
        | "copy folder"
        | "move folder"
        | "old checkpoint"
        | "remove log"
        | "remove checkpoint";
    }
  | { readonly edit: "cut log"; readonly line: number }
  | { readonly edit: "rot"; readonly place: number }
  | { readonly edit: "sync" | "cut power" };

export interface RoundEnd {
  readonly how: "stop" | "kill" | "cut" | "kill and cut";
  /** The process dies at this moment of its disk, or when everything is done; 0: then. */
  readonly moment: number;
  readonly cut: CutKind;
}

export interface RoundPlan {
  readonly number: number;
  /** How many bytes the disk has room for; 0: enough. */
  readonly room: number;
  readonly edits: readonly Edit[];
  /** What the operator does before a start. */
  readonly before: readonly ("verify" | "restore" | "repair")[];
  /** What the operator does if a start refuses. */
  readonly remedy: "repair" | "restore" | "start anew";
  readonly commands: readonly Command[];
  readonly end: RoundEnd;
}

export interface LifePlan {
  readonly seed: string;
  readonly rates: Rates;
  readonly plantBytesMax: number;
  readonly batchBytesMax: number;
  readonly queueBytesMax: number;
  readonly rounds: readonly RoundPlan[];
}

/** A plant of a life: the same for the same choice. */
export function makePlant(plan: LifePlan, { number, version }: PlantChoice): NewPlant {
  const random = new Random(plan.seed).fork(`plant ${number} ${version}`);
  const filler = "x".repeat(Math.floor(random.next() * plan.plantBytesMax));
  const name = `${number}.${version} ${random.pick(["", "", "", "é", "\u2028", '"', "\n", "\ud800"])}${filler}`;
  const tag = random.pick([undefined, undefined, "", "t"]);
  const id = idOf(number);
  return tag === undefined ? { id, name } : { id, name, tag };
}

/** Most ids are small, some are longer than a number of JavaScript holds. */
export function idOf(number: number): bigint {
  if (number % 7 === 3) return 9_007_199_254_740_993n + BigInt(number);
  return number % 11 === 4 ? -9_223_372_036_854_775_808n + BigInt(number) : BigInt(number);
}

export function plantContent({ name, tag }: NewPlant): string {
  return contentOf(name, tag);
}

/** What a rule does: it makes a call fail, or take long, or a cut damage what was durable. */
export type RuleKind = keyof typeof KINDS;

const KINDS = {
  fault:
    /^(append|overwrite|truncate|sync|syncFolder|room|rot|open|find|list|names|read|lock): (?!a short count|any subset|held|.* dead$|pages|the last ones|a rename across|an inode|a rewrite)/,
  delay: /^time: (slow|never|a call)/,
  harm: /^(harsh:|names: any subset)/,
};
const KIND_NAMES = Object.keys(KINDS) as RuleKind[];
const KIND_OF = new Map(
  RULE_NAMES.map((rule) => [rule, KIND_NAMES.find((kind) => KINDS[kind].test(rule))]),
);
/** Rules that a life switches on by what is done in it. */
const DONE_BY_LIFE = /^(others|rot|lock: its entry|time: the)/;

/** How often rules of each kind have fired. */
export function firedOf(counts: Partial<Record<RuleName, number>>): Record<RuleKind, number> {
  const fired = { fault: 0, delay: 0, harm: 0 };
  for (const [rule, count] of Object.entries(counts)) {
    const kind = KIND_OF.get(rule as RuleName);
    if (kind !== undefined) fired[kind] += count;
  }
  return fired;
}

export function drawPlan(seed: string): LifePlan {
  const random = new Random(seed).fork("plan");
  const rounds = random.between(8, 36);
  const plants = random.between(20, 100);
  const calm = random.chance(0.4);
  return {
    seed,
    rates: drawRates(random.fork("rates"), calm),
    plantBytesMax: random.pick([0, 60, 300, 700, 1536]),
    batchBytesMax: random.pick([1024 * 1024, 1024 * 1024, 512, 2048]),
    queueBytesMax: random.pick([4 * 1024 * 1024, 4 * 1024 * 1024, 1500]),
    rounds: Array.from({ length: rounds }, (_, number) =>
      drawRound(random.fork(`round ${number}`), number, plants),
    ),
  };
}

/** In a calm life nothing fails but the power and the process. */
function drawRates(random: Random, isCalm: boolean): Rates {
  const rates: Partial<Record<RuleName, number>> = {};
  const density = random.pick([0.1, 0.3, 1]);
  const isHarsh = random.chance(0.06);
  for (const name of RULE_NAMES) {
    if (RULES[name].rate > 0 || DONE_BY_LIFE.test(name)) continue;
    if (KIND_OF.get(name) === "harm") {
      if (isHarsh) rates[name] = random.pick([0.02, 0.2]);
    } else if (!isCalm && random.chance(density)) rates[name] = random.pick([0.001, 0.005, 0.02]);
  }
  return rates;
}

function drawRound(random: Random, number: number, plants: number): RoundPlan {
  const count = random.pick([0, 2, 5, 10, 20]);
  return {
    number,
    room: random.chance(0.06) ? random.pick([1, 600, 2500, 6000]) : 0,
    edits: random.chance(0.12)
      ? Array.from({ length: random.between(1, 2) }, () => drawEdit(random, plants))
      : [],
    before: [
      ...(random.chance(0.15) ? ["verify" as const] : []),
      ...(random.chance(0.04) ? ["restore" as const] : []),
      ...(random.chance(0.04) ? ["repair" as const] : []),
    ],
    remedy: random.pick(["repair", "repair", "restore", "start anew"]),
    commands: Array.from({ length: count }, (_, at) =>
      drawCommand(random.fork(`command ${at}`), at, plants),
    ),
    end: {
      how: random.pick(["stop", "kill", "kill", "cut", "cut", "cut", "kill and cut"]),
      moment: drawMoment(random),
      cut: random.pick(["chance", "chance", "nothing", "everything"]),
    },
  };
}

/** A start takes some 150 moments. */
function drawMoment(random: Random): number {
  if (random.chance(0.3)) return 0;
  return random.chance(0.5) ? random.between(1, 200) : random.between(150, 900);
}

function drawPlant(random: Random, plants: number): PlantChoice {
  return { number: random.below(plants), version: random.chance(0.1) ? 1 : 0 };
}

function drawPlants(random: Random, plants: number, max: number): PlantChoice[] {
  return Array.from({ length: random.between(1, max) }, () => drawPlant(random, plants));
}

function drawCommand(random: Random, number: number, plants: number): Command {
  const at = {
    number,
    client: random.below(3),
    waitMs: random.chance(0.7) ? random.below(3) : random.below(300),
  };
  const names = ["anna", "ben", "cleo", "dora"];
  const kind = random.below(100);
  if (kind < 50) return { ...at, act: "create", plants: drawPlants(random, plants, 6) };
  if (kind < 58) return { ...at, act: random.pick(["get", "list"]), plant: random.below(plants) };
  if (kind < 62) return { ...at, act: "import", plants: drawPlants(random, plants, 12) };
  if (kind < 66) return { ...at, act: random.pick(["export", "verify", "read folder"]) };
  if (kind < 68) return { ...at, act: "import folder" };
  if (kind < 72) return { ...at, act: "backup" };
  if (kind < 75) return { ...at, act: "backup into", keep: random.between(1, 3) };
  if (kind < 79) return { ...at, act: "create token", name: random.pick(names) };
  if (kind < 82) return { ...at, act: "revoke token", name: random.pick(names) };
  if (kind < 85) return { ...at, act: random.pick(["list tokens", "import tokens"]) };
  if (kind < 91) return { ...at, act: "look" };
  if (kind < 96) {
    const ms = random.pick([50, 500, 2100, 2100, 11_000]);
    return { ...at, act: random.pick(["rest", "rest", "freeze", "set clock"]), ms };
  }
  if (kind === 96 && random.chance(0.5)) return { ...at, act: "start another" };
  const how = random.pick<Intrusion>([
    "append",
    "remove log",
    "replace log",
    "cut log",
    "remove lock",
    "edit tokens",
  ]);
  return { ...at, act: "intrude", how, plant: drawPlant(random, plants) };
}

function drawEdit(random: Random, plants: number): Edit {
  const line = random.below(100);
  const kind = random.below(12);
  if (kind < 3) {
    return { edit: "append", plants: drawPlants(random, plants, 4), isTorn: random.chance(0.3) };
  }
  if (kind < 5) return { edit: random.pick(["copy folder", "copy folder", "move folder"]) };
  if (kind === 5) return { edit: random.pick(["change line", "remove line", "repeat line"]), line };
  if (kind === 6) return { edit: "replace", plants: drawPlants(random, plants, 4) };
  if (kind === 7) return { edit: random.pick(["old checkpoint", "remove checkpoint"]) };
  if (kind === 8) return random.pick([{ edit: "remove log" }, { edit: "cut log", line }]);
  if (kind === 9) return { edit: "rot", place: random.below(1_000_000) };
  return { edit: random.pick(["sync", "cut power"]) };
}
