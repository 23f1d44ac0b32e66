/**
 * What happens in a life: a plan, which is drawn before it begins (draw.ts), and can be edited and run again.
 *
 * Invariants. A plan is JSON. Each round and each command has a number that names its chance, so one that is
 * taken out shifts no other.
 */
import type { NewPlant } from "../../src/core/plant.ts";
import { contentOf } from "./image.ts";
import type { CutKind } from "./platter.ts";
import { Random } from "./random.ts";
import type { Rates } from "./rules.ts";

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
  | { readonly act: "export" | "verify" | "import folder" | "backup" | "read all" }
  | { readonly act: "backup into"; readonly keep: number }
  | { readonly act: "create token" | "revoke token"; readonly name: string }
  | { readonly act: "list tokens" | "import tokens" | "look" | "start another" }
  | { readonly act: "rest" | "freeze" | "set clock"; readonly ms: number }
  | { readonly act: "intrude"; readonly how: Intrusion; readonly plant: PlantChoice }
);

/** What another program does to a folder that a server serves. */
export type Intrusion =
  | "append"
  | "append amid an append"
  | "remove log"
  | "replace log"
  | "cut log"
  | "remove lock"
  | "edit tokens"
  | "edit tokens, no line feed"
  | "erase token"
  | "remove tokens"
  | "spoil tokens"
  | "mend tokens";

/** What another program does to a folder that nobody serves. None of them syncs. */
export type Edit =
  | {
      readonly edit: "append";
      readonly plants: readonly PlantChoice[];
      /** What is missing at the end of the lines. */
      readonly lacks: "nothing" | "its line feed" | "a third";
    }
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
  | { readonly edit: "cut log" | "edit tokens"; readonly line: number }
  | {
      readonly edit: "rot";
      readonly file: "log" | "checkpoint" | "tokens";
      readonly place: number;
    }
  | { readonly edit: "sync" | "cut power" };

export interface RoundEnd {
  readonly how: "stop" | "kill" | "cut" | "kill and cut";
  /** The process dies at this moment of these calls of its disk, or when everything is done; 0: then. */
  readonly moment: number;
  readonly of:
    | "any call"
    | "append"
    | "overwrite"
    | "truncate"
    | "sync"
    | "syncFolder"
    | "openForChanges"
    | "rename"
    | "link"
    | "unlink";
  readonly cut: CutKind;
}

export interface RoundPlan {
  readonly number: number;
  /** Nothing fails but the power and the process. */
  readonly isCalm: boolean;
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
