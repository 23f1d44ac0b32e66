/**
 * A disk whose power can be cut: ext4 in an image file. After a cut it has what was synced, and whatever else the
 * kernel happened to write.
 *
 * The kernel's shutdown of a file system (FS_IOC_SHUTDOWN) discards the pages and the journal entries that are only
 * in memory. Node cannot make this call, so Perl, which Debian always has, does.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { until } from "../support/watch.ts";

const IMAGE_BYTES = 128 * 2 ** 20;
/** A slow machine must not commit by itself within a round what nobody synced. */
const MOUNT_OPTIONS = "loop,commit=300";

/** Kills first: a process that still writes would see errors that a power cut does not show it. */
const CUT = `
my ($folder, @pids) = @ARGV;
open(my $disk, "<", $folder) or die "$folder: $!";
kill("KILL", @pids);
my $without_flush = pack("L", 2);
ioctl($disk, 0x8004587d, $without_flush) or die "FS_IOC_SHUTDOWN: $!";
`;

export class LoopDisk {
  /** The root of the disk. */
  readonly folder: string;
  readonly #image: string;

  /** The disk is there until the test ends. */
  constructor(t: TestContext) {
    const parent = mkdtempSync(join(tmpdir(), "plant-store-disk-"));
    this.folder = join(parent, "mounted");
    this.#image = join(parent, "image");
    t.after(() => {
      spawnSync("umount", ["--lazy", this.folder]); // a process may still be there
      rmSync(parent, { recursive: true, force: true });
    });
    mkdirSync(this.folder);
    writeFileSync(this.#image, "");
    truncateSync(this.#image, IMAGE_BYTES);
    execute("mkfs.ext4", "-q", "-b", "4096", this.#image);
    this.#mount();
  }

  /** Writes everything to the disk. */
  sync(): void {
    execute("sync", "--file-system", this.folder);
  }

  /** Cuts the power, which also ends these processes, and switches it on again. */
  async cut(...pids: readonly number[]): Promise<void> {
    execute("perl", "-e", CUT, this.folder, ...pids.map(String));
    // A process may close its files a moment after its end.
    const isDone = () => spawnSync("umount", [this.folder]).status === 0;
    await until(`${this.folder} is unmounted`, isDone);
    const list = ["--associated", this.#image, "--noheadings"];
    const isDetached = () => spawnSync("losetup", list).stdout.length === 0;
    await until(`${this.#image} is detached`, isDetached);
    this.#mount();
  }

  #mount(): void {
    execute("mount", "-o", MOUNT_OPTIONS, this.#image, this.folder);
  }
}

/** Whether this machine has such disks; skips the test if not. */
export function canCutPower(t: TestContext): boolean {
  try {
    new LoopDisk(t);
    return true;
  } catch {
    t.skip("needs root, loop devices, mkfs.ext4 and perl");
    return false;
  }
}

/** Runs a program to its end. @throws Error unless it succeeds. */
export function execute(program: string, ...args: readonly string[]): void {
  const { status, error, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status === 0) return;
  throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? stderr}`);
}
