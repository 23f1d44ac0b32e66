/**
 * The rules of the simulated disk: what each does, and which program or fact shows the same on a real kernel.
 *
 * Invariants. Each rule can be switched off, and is counted when it has fired: a rule that never fires shows
 * nothing, and fails a long run. Where a kernel differs, the kernel is right.
 */
import type { Random } from "./random.ts";

export const RULES = {
  "crash: kill": "npm run crash: SIGKILL keeps the page cache",
  "crash: cut": "npm run crash -- --power-cuts: FS_IOC_SHUTDOWN on ext4 and XFS",
} as const;

export type RuleName = keyof typeof RULES;

export const RULE_NAMES = Object.keys(RULES) as RuleName[];

/** How probable each rule is where it may fire; one that is absent is off. */
export type Rates = Partial<Record<RuleName, number>>;

export class RuleBook {
  readonly counts: Partial<Record<RuleName, number>> = {};
  readonly rates: Rates;

  constructor(rates: Rates = {}) {
    this.rates = rates;
  }

  /** Whether a rule fires here; counts it. */
  fires(name: RuleName, random: Random): boolean {
    if (!random.chance(this.rates[name] ?? 0)) return false;
    this.count(name);
    return true;
  }

  isOn(name: RuleName): boolean {
    return (this.rates[name] ?? 0) > 0;
  }

  count(name: RuleName): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}
