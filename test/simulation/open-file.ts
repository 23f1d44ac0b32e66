/**
 * An open file of a simulated process.
 *
 * Invariant. An append covers its own sectors and the length of the file (O_DSYNC), and not the dirty bytes of
 * others; a sync covers all.
 */
import type { FileState, OpenFile } from "../../src/log/disk.ts";
import type { SimulatedDisk } from "./disk.ts";
import { type Dirt, type FileNode, SECTOR_BYTES } from "./inode.ts";
import { type PlatterNode, SystemError } from "./platter.ts";
import type { Random } from "./random.ts";
import type { RuleName } from "./rules.ts";

export function openFile(
  disk: SimulatedDisk,
  path: string,
  node: FileNode,
  isForAppending: boolean,
): OpenFile {
  const { platter, rules } = disk;
  let isOpen = true;
  const use = (call: string, isChange = false) => {
    if (isOpen && (!isChange || isForAppending)) return node;
    throw new SystemError(isOpen && call === "ftruncate" ? "EINVAL" : "EBADF", call);
  };
  const endSync = (rule: RuleName, dirt: Dirt, random: Random) => {
    const isFailing = dirt.sectors.length > 0 && rules.fires(rule, random);
    if (!isFailing) return node.commit(dirt);
    node.fail(dirt, random);
    throw new SystemError("EIO", "fsync", path);
  };
  const write = (bytes: Buffer): { count: number; dirt: Dirt } => {
    const position = use("write", true).bytes.length;
    const count = platter.append(node, bytes);
    return { count, dirt: node.dirt(position) };
  };
  return {
    state: () => disk.now("state", path, () => stateOf(use("fstat"))),

    read: (buffer, start, bytes, position) =>
      disk.later("read", path, {
        apply: (random) => {
          const { bytes: all } = use("read");
          disk.maybeFail("read: fails", random, "EIO");
          const isShort = bytes > 1 && rules.fires("read: a short count", random);
          const end = position + (isShort ? random.between(1, bytes - 1) : bytes);
          if (node.isUnreadable(position, end - position)) throw new SystemError("EIO", "read");
          return all.subarray(position, end).copy(buffer, start);
        },
      }),

    async append(bytes, start) {
      const rest = bytes.subarray(start);
      const written = await disk.later("append", path, {
        apply: (random) => {
          disk.maybeFail("append: fails before it writes", random, "EIO");
          disk.maybeFail("append: no room", random, "ENOSPC", "EDQUOT", "EFBIG");
          const isShort = rules.fires("append: a short count", random);
          return write(isShort ? shortened(rest, node.bytes.length, random) : rest);
        },
        finish: ({ dirt }, random) => endSync("append: its sync fails", dirt, random),
        land: (random, isWhole) =>
          void write(isWhole ? rest : rest.subarray(0, random.between(0, rest.length))),
      });
      return written.count;
    },

    truncate: (bytes) =>
      disk.now("truncate", path, (random) => {
        disk.maybeFail("truncate: fails", random, "EIO");
        use("ftruncate", true).truncate(bytes);
      }),

    async sync() {
      await disk.later("sync", path, {
        apply: () => use("fsync").dirt(),
        finish: (dirt, random) => endSync("sync: fails", dirt, random),
      });
    },

    close: () =>
      disk.later("close", path, {
        apply: () => {
          use("close");
          isOpen = false;
        },
      }),
  };
}

/** A part of a write: the kernel copies whole sectors. */
function shortened(bytes: Buffer, position: number, random: Random): Buffer {
  const end = random.between(0, bytes.length);
  const whole = end - ((position + end) % SECTOR_BYTES);
  return whole > 0 ? bytes.subarray(0, whole) : bytes;
}

const inos = new WeakMap<PlatterNode, bigint>();
let lastIno = 0n;

export function stateOf(node: PlatterNode): FileState {
  const ino = inos.get(node) ?? ++lastIno;
  inos.set(node, ino);
  const isFolder = node.kind === "folder";
  return {
    dev: 64n,
    ino,
    size: BigInt(node.kind === "file" ? node.bytes.length : 0),
    mode: BigInt(isFolder ? 0o040700 : 0o100600),
    isDirectory: () => isFolder,
  };
}
