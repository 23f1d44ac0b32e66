/**
 * A disk whose power can be cut: a file system in an image file. After a cut it has what was synced, and whatever
 * else the kernel happened to write.
 *
 * The kernel's shutdown of a file system (FS_IOC_SHUTDOWN, the same number for ext4 and XFS) discards the pages and
 * the journal entries that are only in memory. Node cannot make this call, so Perl, which Debian always has, does.
 */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { until } from "../support/watch.ts";
import { execute } from "./machine.ts";

/** How each is mounted: a slow machine must not commit by itself before a cut what nobody synced. */
const OPTIONS = { ext4: "loop,commit=300", xfs: "loop" } as const;
/** Less is too small for XFS. */
const IMAGE_SIZE = "320M";

/** Kills first: a process that still writes would see errors that a power cut does not show it. */
const CUT = `
my ($folder, $pid) = @ARGV;
open(my $disk, "<", $folder) or die "$folder: $!";
kill("KILL", $pid);
my $without_flush = pack("L", 2);
ioctl($disk, 0x8004587d, $without_flush) or die "FS_IOC_SHUTDOWN: $!";
`;

export type LoopDisk = NonNullable<ReturnType<typeof makeLoopDisk>>;

/** A disk until the test ends; `undefined`, and the test is skipped, if this machine cannot have it. */
export function makeLoopDisk(t: TestContext, kind: keyof typeof OPTIONS) {
  const parent = mkdtempSync(join(tmpdir(), "plant-store-disk-"));
  const [folder, image] = [join(parent, "mounted"), join(parent, "image")];
  const mount = () => execute("mount", "-o", OPTIONS[kind], image, folder);
  t.after(() => {
    spawnSync("umount", ["--lazy", folder]); // a process may still be there
    rmSync(parent, { recursive: true, force: true });
  });
  try {
    mkdirSync(folder);
    execute("truncate", "--size", IMAGE_SIZE, image);
    execute(`mkfs.${kind}`, "-q", image);
    mount();
  } catch {
    t.skip(`needs root, loop devices, mkfs.${kind}, a kernel with ${kind}, and perl`);
    return undefined;
  }
  return {
    folder,
    /** Cuts the power, which also ends this process, and switches it on again. */
    async cut(pid: number): Promise<void> {
      execute("perl", "-e", CUT, folder, String(pid));
      // A process may close its files a moment after its end.
      const isUnmounted = () => spawnSync("umount", [folder]).status === 0;
      await until(`${folder} is unmounted`, isUnmounted);
      const list = ["--associated", image, "--noheadings"];
      const isDetached = () => spawnSync("losetup", list).stdout.length === 0;
      await until(`${image} is detached`, isDetached);
      mount();
    },
  };
}
