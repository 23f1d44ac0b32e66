/**
 * The rules of the simulated disk and of what happens to it.
 *
 * Invariants. A fault fires only in a life that switches it on. Every firing is counted, and a rule that never
 * fires fails a long run, because it shows nothing. Where a kernel differs from a rule, the kernel is right.
 */
import type { Random } from "./random.ts";

/** Faults that lives switch on, and the highest rate of each; those of one line come together. */
export const FAULTS = [
  {
    "append: fails before it writes": 0.2,
    "append: its sync fails": 0.4,
    "truncate: fails": 0.4,
    "sync: fails": 1,
    "syncFolder: fails": 0.1,
  },
  { "append: no room": 0.3, "append: a short count": 0.5 },
  { "open: fails": 0.1, "stat: fails": 0.1, "list: fails": 0.1, "names: a change fails": 0.1 },
  { "read: a short count": 0.5, "read: fails": 0.1 },
  { "time: slow": 0.1, "time: never": 0.02 },
  { "time: frozen": 1, "time: the wall clock is set": 1 },
] as const;

/** How probable the others are where they may fire. */
const RATES = {
  "crash: kill": 1,
  "crash: power cut": 1,
  "crash: kill, then power cut": 1,
  "crash: issued": 1,
  "crash: applied": 1,
  "crash: returned": 1,
  "crash: in a synchronous call": 1,
  "crash: a call lands whole": 0.3,
  "crash: a call lands in part": 0.3,
  "cut: a sector is new": 1,
  "cut: a sector is old": 1,
  "cut: a sector is zeros": 1,
  "cut: the length grows in part": 0.3,
  "cut: the length is lost": 1,
  "cut: a truncation is lost": 1,
  "cut: the last names are lost": 1,
  "room: a short append": 1,
  "room: none": 1,
  "time: completions change places": 1,
  "rot: a bit": 1,
  "rot: a sector of zeros": 1,
  "rot: an unreadable sector": 1,
  "rot: a file is cut": 1,
  "rot: a file is lost": 1,
  "others: append": 1,
  "others: cut": 1,
  "others: replace": 1,
  "others: remove the log": 1,
  "others: remove the lock": 1,
  "others: a second process past the lock": 1,
  "lock: held": 1,
  "lock: its holder is dead": 1,
};

type Keys<Union> = Union extends unknown ? keyof Union : never;
export type RuleName = keyof typeof RATES | Keys<(typeof FAULTS)[number]>;

/** What is switched on, and how probable it is. */
export type Rates = Partial<Record<RuleName, number>>;

export const RULE_NAMES = [...FAULTS, RATES].flatMap((rates) => Object.keys(rates) as RuleName[]);

export class RuleBook {
  readonly counts: Rates = {};
  rates: Rates = {};

  rate(name: RuleName): number {
    return this.rates[name] ?? (RATES as Rates)[name] ?? 0;
  }

  /** Whether a rule fires here; counts it. What it draws changes no other rule's chance. */
  fires(name: RuleName, random: Random): boolean {
    const rate = this.rate(name);
    if (rate === 0 || (rate < 1 && !random.fork(name).chance(rate))) return false;
    this.count(name);
    return true;
  }

  count(name: RuleName): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}
