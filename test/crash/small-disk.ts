/** A disk that can be filled, and then gets room again: a tmpfs whose size is changed. */
import { spawnSync } from "node:child_process";
import { statfsSync } from "node:fs";
import { makeTemporaryFolder, removeAtExit } from "./leftovers.ts";

const ROOM = "4g";
const LEFT_KIB = 256;

export class SmallDisk {
  readonly folder: string;
  /** If mounting is not permitted, this is an ordinary folder that never fills. */
  readonly canFill: boolean;
  /** Whether it is not filled. */
  hasRoom = true;
  readonly remove: () => void;

  constructor() {
    const { path, remove } = makeTemporaryFolder("small-disk");
    this.folder = path;
    this.canFill = mount(["-t", "tmpfs", "-o", `size=${ROOM},mode=700`, "tmpfs", path]);
    this.remove = removeAtExit(() => {
      // Lazily, because at an exit a server may still be running.
      if (this.canFill) spawnSync("umount", ["--lazy", path]);
      remove();
    });
  }

  /** Leaves so much room; by default that for the records of a moment. */
  fill(leftKib = LEFT_KIB): void {
    const { blocks, bfree, bsize } = statfsSync(this.folder);
    const usedKib = Math.ceil(((blocks - bfree) * bsize) / 1024);
    this.#resize(`${usedKib + leftKib}k`);
    this.hasRoom = false;
  }

  giveRoom(): void {
    if (this.canFill) this.#resize(ROOM);
    this.hasRoom = true;
  }

  #resize(size: string): void {
    const isDone = mount(["-o", `remount,size=${size}`, this.folder]);
    if (!isDone) throw new Error(`cannot make the disk ${size} large`);
  }
}

function mount(args: readonly string[]): boolean {
  return spawnSync("mount", args).status === 0;
}
