/**
 * The rules of the simulated disk: what each does, and which program or fact shows the same on a real kernel.
 *
 * Invariants. Each rule can be switched off, and is counted when it has fired: a rule that never fires shows
 * nothing, and fails a long run. Where a kernel differs, the kernel is right.
 */
import type { Random } from "./random.ts";

interface Rule {
  /** How probable it is where it may fire, unless a life says otherwise. */
  readonly rate: number;
  /** The program of `npm run crash`, or the fact, that shows the same. */
  readonly shownBy: string;
}

const KILLS = "npm run crash: SIGKILL at random moments under load";
const CUTS = "npm run crash -- --power-cuts: FS_IOC_SHUTDOWN of ext4";
const INJECTED = "strace --inject=CALL:error=CODE has any call fail";
const FULL = "test/faults/disk-full: a tmpfs without room";
const FSYNC = "Rebello et al., ATC '20 (CuttleFS)";
const ERRSEQ = "Linux lib/errseq.c, fs/sync.c: an error is reported once to each descriptor";
const POSIX = "read(2), write(2)";

function always(shownBy: string): Rule {
  return { rate: 1, shownBy };
}

function often(rate: number, shownBy: string): Rule {
  return { rate, shownBy };
}

/** A fault, which a life has to switch on. */
function rarely(shownBy: string): Rule {
  return { rate: 0, shownBy };
}

export const RULES = {
  // When a process dies.
  "crash: kill": always(KILLS),
  "crash: cut": always(CUTS),
  "crash: kill, then cut": always(CUTS),
  "crash: issued": always(KILLS),
  "crash: applied": always(KILLS),
  "crash: returned": always(KILLS),
  "crash: in a call that does not wait": always(KILLS),
  "crash: a visible append is not durable": always(KILLS),
  "crash: a write lands whole": often(
    0.3,
    "a thread of libuv ends its call before the process is gone",
  ),
  "crash: a write lands in part": often(0.3, "a signal ends write(2) between two pages"),

  // What a cut does to bytes that are not durable.
  "cut: a sector is new": always(CUTS),
  "cut: a sector is old": always(CUTS),
  "cut: a sector is zeros": always(CUTS),
  "cut: the length comes first": always(CUTS),
  "cut: the length grows in part": often(0.3, "ext4: delayed allocation writes extents one by one"),
  "cut: the length is lost": always(CUTS),
  "cut: a truncation is lost": always(CUTS),
  "harsh: a sector is written in part": rarely("a disk without power-loss protection"),
  "harsh: a sector has stale bytes": rarely("ext4 with data=writeback"),
  "harsh: an overwritten sector is zeros": rarely("a disk that remaps a sector"),
  "harsh: a durable neighbour is damaged": rarely("a disk whose sectors are larger than 512 bytes"),

  // What a cut does to names.
  "names: the last ones are lost": always(CUTS),
  "names: a rename across folders is lost": always(CUTS),
  "names: any subset": rarely("a file system that syncs each folder alone, such as Btrfs"),
  "names: an inode number is used again": often(0.5, "ext4 takes the lowest free inode"),

  // Appends and other writes.
  "append: a short count": rarely(POSIX),
  "append: no room": rarely(FULL),
  "append: quota": rarely("setquota(8) on ext4"),
  "append: too large": rarely("test/faults/disk-limits: ulimit -f"),
  "append: fails before it writes": rarely(INJECTED),
  "append: its sync fails": rarely(FSYNC),
  "overwrite: fails": rarely(INJECTED),
  "overwrite: a short count": rarely(POSIX),
  "truncate: fails": rarely(INJECTED),

  // Syncs.
  "sync: fails": rarely(FSYNC),
  "sync: fails for want of room": rarely("ext4 with delayed allocation; NFS"),
  "sync: a write behind fails": rarely(FSYNC),
  "sync: reports an earlier failure": always(ERRSEQ),
  "sync: a new descriptor gets an old failure": always(ERRSEQ),
  "sync: nobody gets a failure again": always(ERRSEQ),
  "sync: pages are kept": often(1, `${FSYNC}: ext4, XFS`),
  "sync: pages are reverted": often(1, `${FSYNC}: Btrfs`),
  "sync: pages are gone": often(1, `${FSYNC}: ext4 after the page is dropped`),
  "sync: a rewrite in place stays lost": often(0.3, "ext4: the extent stays unwritten"),
  "sync: lost pages leave the cache": often(0.5, "memory pressure; echo 1 > drop_caches"),
  "syncFolder: fails": rarely(INJECTED),
  "syncFolder: fails for good": rarely("ext4 aborts its journal: errors=remount-ro"),

  // Room.
  "room: a short append, then none": always(FULL),
  "room: no bytes": always(FULL),
  "room: no inodes": always(FULL),

  // Rot.
  "rot: a bit": rarely("Bairavasundaram et al., FAST '08: bytes that change at rest"),
  "rot: a sector of zeros": rarely("a disk that remaps a sector"),
  "rot: an unreadable sector": rarely("dm-dust; hdparm --make-bad-sector"),

  // Other calls.
  "stamps: whole seconds": rarely("ext3, HFS+, NFS before version 3"),
  "open: fails": rarely("test/faults/disk-descriptors: ulimit -n"),
  "find: fails": rarely(INJECTED),
  "list: fails": rarely(INJECTED),
  "names: a change fails": rarely(INJECTED),
  "read: a short count": rarely(POSIX),
  "read: fails": rarely(INJECTED),
  "holds: the system cannot tell": rarely("open(2): O_DIRECT fails on tmpfs before Linux 6.6"),

  // Time.
  "time: completions change places": always("io_uring and thread pools promise no order"),
  "time: slow": rarely("test/faults/disk-slow: strace --inject=CALL:delay_enter"),
  "time: an append is slow": rarely("test/faults/disk-slow: strace --inject=CALL:delay_enter"),
  "time: a call that does not wait is slow": rarely("test/faults/frozen: SIGSTOP"),
  "time: never": rarely("test/faults/disk-slow: a write that never ends; a dying disk"),
  "time: the wall clock is set": rarely("clock_settime(2)"),
  "time: the process is frozen": rarely("test/faults/frozen: SIGSTOP"),

  // Other programs, none of which syncs.
  "others: a copied folder": rarely(`${CUTS}, "copied folder"`),
  "others: appended lines": rarely(`${CUTS}, "appended lines"`),
  "others: an edit in place": rarely(`${CUTS}, "token file edited"`),
  "others: an edit by replacement": rarely(`${CUTS}, "token file edited"`),
  "others: removed": rarely("test/faults/disk-taken-away"),
  "others: moved": rarely("test/faults/disk-taken-away"),
  "others: an old checkpoint": rarely("cp(1) of a file of an earlier time"),
  "others: a write past the lock": rarely("test/crash/durable-order: O_APPEND"),
  "others: a second process": rarely("test/faults/lock-lost: a second server serves alone"),
  "others: sync(1)": rarely("sync(1)"),

  // Locks.
  "lock: held": always("test/log/lock"),
  "lock: its holder is dead": always("npm run crash: each start after a kill"),
  "lock: its entry is removed": rarely("test/faults/lock-lost"),
  "lock: its holder is silent": rarely("test/faults/lock-holder"),
} as const satisfies Record<string, Rule>;

export type RuleName = keyof typeof RULES;

export const RULE_NAMES = Object.keys(RULES) as RuleName[];

/** What a rule does: it makes a call fail, or take long, or a cut damage what was durable. */
export type RuleKind = keyof typeof KINDS;

const KINDS = {
  /** The disk takes no more, and says so. */
  refusal: /^(append: (no room|quota|too large)|room:)/,
  /** What is there cannot be looked at. */
  blind: /^(read: fails|rot|open|find|list)/,
  fault:
    /^(append|overwrite|truncate|sync|syncFolder|names|lock): (?!a short count|any subset|held|.* dead$|pages|the last ones|a rename across|an inode|a rewrite)/,
  delay: /^time: (slow|never|an append|a call)/,
  harm: /^(harsh:|names: any subset)/,
};
const KIND_NAMES = Object.keys(KINDS) as RuleKind[];
const KIND_OF = new Map(
  RULE_NAMES.map((rule) => [rule, KIND_NAMES.find((kind) => KINDS[kind].test(rule))]),
);

export function kindOf(rule: RuleName): RuleKind | undefined {
  return KIND_OF.get(rule);
}

/** How probable each rule is where it may fire. */
export type Rates = Partial<Record<RuleName, number>>;

export class RuleBook {
  readonly counts: Partial<Record<RuleName, number>> = {};
  /** What differs from the rates of RULES; 0 switches a rule off. May be replaced at any time. */
  rates: Rates;

  constructor(rates: Rates = {}) {
    this.rates = rates;
  }

  /** How often rules of each kind have fired. */
  get fired(): Record<RuleKind, number> {
    const fired = { refusal: 0, blind: 0, fault: 0, delay: 0, harm: 0 };
    for (const [rule, count] of Object.entries(this.counts)) {
      const kind = kindOf(rule as RuleName);
      if (kind !== undefined) fired[kind] += count;
    }
    return fired;
  }

  rate(name: RuleName): number {
    return this.rates[name] ?? RULES[name].rate;
  }

  isOn(name: RuleName): boolean {
    return this.rate(name) > 0;
  }

  /** Whether a rule fires here; counts it. What it draws changes no other rule's chance. */
  fires(name: RuleName, random: Random): boolean {
    const rate = this.rate(name);
    if (rate <= 0 || !random.fork(name).chance(rate)) return false;
    this.count(name);
    return true;
  }

  /** Like `fires`, many times in a row: draws from `random` itself, and counts nothing. */
  draws(name: RuleName, random: Random): boolean {
    const rate = this.rate(name);
    return rate >= 1 || random.chance(rate);
  }

  count(name: RuleName): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}
