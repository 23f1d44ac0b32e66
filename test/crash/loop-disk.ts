/**
 * A disk whose power can be cut: a file system in an image file. After a cut it has what was synced,
 * and whatever else the kernel happened to write.
 *
 * The kernel's shutdown of a file system (FS_IOC_SHUTDOWN) discards the pages and the journal entries
 * that are only in memory. Node cannot make this call, so Perl, which Debian always has, does.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { makeTemporaryFolder, removeAtExit } from "./leftovers.ts";
import type { Run } from "./program.ts";

export const FILE_SYSTEMS = ["ext4", "xfs"] as const;
export type FileSystem = (typeof FILE_SYSTEMS)[number];

const MIB = 2 ** 20;
/** XFS refuses less than 300 MiB. The file is sparse. */
const IMAGE_BYTES: Readonly<Record<FileSystem, number>> = { ext4: 128 * MIB, xfs: 320 * MIB };
/** A slow machine must not commit by itself within a round what nobody synced; XFS waits for 30 s. */
const MOUNT_OPTIONS: Readonly<Record<FileSystem, string>> = {
  ext4: "loop,commit=300",
  xfs: "loop",
};

const PAGE_KIB = 4;
/** Small disks would get smaller blocks than others. */
const FORMAT: Readonly<Record<FileSystem, readonly string[]>> = { ext4: ["-b", "4096"], xfs: [] };

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
  /** Unmounts the disk and removes it. */
  readonly remove: () => void;
  readonly #image: string;
  readonly #fileSystem: FileSystem;

  /** @param imageFolder where to put the image file; by default in a temporary folder. */
  constructor(fileSystem: FileSystem, imageFolder?: string) {
    const { path, remove } = makeTemporaryFolder("disk");
    this.folder = join(path, "mounted");
    this.#fileSystem = fileSystem;
    this.#image = join(imageFolder ?? path, "image");
    this.remove = removeAtExit(() => {
      // Lazily, because at an exit a process may still be there.
      spawnSync("umount", ["--lazy", this.folder]);
      remove();
    });
    mkdirSync(this.folder);
    writeFileSync(this.#image, "");
    truncateSync(this.#image, IMAGE_BYTES[fileSystem]);
    execute(`mkfs.${fileSystem}`, "-q", ...FORMAT[fileSystem], this.#image);
    this.#mount();
  }

  /** Writes everything to the disk. */
  sync(): void {
    execute("sync", "--file-system", this.folder);
  }

  /**
   * Has the image file take room for all blocks that are in use, such as the journal, and no others. From now
   * on the device writes one page at a time: the kernel's loop driver reports a request as written if the
   * image had room for a part of it.
   */
  takeUsedRoom(): void {
    this.sync();
    // mkfs.xfs has written all of them.
    if (this.#fileSystem === "ext4") {
      execute("fallocate", "--length", String(IMAGE_BYTES.ext4), this.#image);
      execute("fstrim", this.folder);
    }
    for (const device of this.#devices()) {
      writeFileSync(`/sys/block/${basename(device)}/queue/max_sectors_kb`, String(PAGE_KIB));
    }
  }

  /** Cuts the power, which also ends these processes, and switches it on again. */
  async cut(processes: readonly Run[]): Promise<void> {
    const running = processes.filter(({ isRunning }) => isRunning);
    execute("perl", "-e", CUT, this.folder, ...running.map(({ pid }) => String(pid)));
    for (const { ended } of processes) await ended;
    await this.#unmount();
    this.#mount();
  }

  #mount(): void {
    execute("mount", "-o", MOUNT_OPTIONS[this.#fileSystem], this.#image, this.folder);
  }

  /**
   * Waits until nothing uses the disk: a process may close its files a moment after its end, and a container
   * that was started meanwhile, by another test, has a copy of the mount.
   */
  async #unmount(): Promise<void> {
    const isDone = () => spawnSync("umount", [this.folder]).status === 0;
    await waitFor(`unmounting ${this.folder}`, isDone);
    await waitFor(`detaching ${this.#image}`, () => this.#devices().length === 0);
  }

  /** The loop device of the image; none while it is not in use. */
  #devices(): string[] {
    const args = ["--associated", this.#image, "--output", "NAME", "--noheadings"];
    return spawnSync("losetup", args, { encoding: "utf8" }).stdout.split(/\s+/).filter(Boolean);
  }
}

const WAIT_MS = 60_000;
const LOOK_EVERY_MS = 20;

export async function waitFor(what: string, isDone: () => boolean): Promise<void> {
  const deadline = performance.now() + WAIT_MS;
  while (!isDone()) {
    if (performance.now() > deadline) throw new Error(`not within ${WAIT_MS / 1000} s: ${what}`);
    await sleep(LOOK_EVERY_MS);
  }
}

/** Why this machine has no such disk; `undefined` if it has. */
export function whyNoLoopDisk(fileSystem: FileSystem): string | undefined {
  if (process.geteuid?.() !== 0) return "needs root, to mount a disk whose power is cut";
  for (const program of ["perl", `mkfs.${fileSystem}`, "mount"]) {
    if (spawnSync(program, ["-V"]).error !== undefined) return `needs ${program}, not found here`;
  }
  try {
    new LoopDisk(fileSystem).remove();
    return undefined;
  } catch {
    return `needs loop devices and ${fileSystem}, which this machine does not have`;
  }
}

/** Runs a program to its end. @throws Error unless it succeeds. */
export function execute(program: string, ...args: readonly string[]): void {
  const { status, error, stderr } = spawnSync(program, args, { encoding: "utf8" });
  if (status === 0) return;
  throw new Error(`${program} ${args.join(" ")}: ${error?.message ?? stderr}`);
}
