/**
 * Loaded into a measured process with `--import`: counts the bytes written to one
 * file and how many of them were synced. Reports both on request over IPC, with
 * the bytes held by array buffers, which are mostly the index of ids.
 *
 * A write on a descriptor with O_DSYNC counts as synced when it returns, any other
 * write after an fdatasync or fsync that began after the write returned. Only the
 * asynchronous calls of node:fs are wrapped (a few thousand a second, a
 * microsecond each). A store that writes in another way has fewer synced bytes
 * than its file grew by, and the bench refuses the run. support/strace-check shows
 * once that these calls reach the kernel.
 *
 * The variable BENCH_LOG names the file. Linux only.
 */
import fs from "node:fs";
import { open } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";

const O_DSYNC = fs.constants.O_DSYNC;
const counts = { syncs: 0, syncedBytes: 0 };
let unsyncedBytes = 0;
const kinds = new Map();

/** `undefined` for other files, else whether the descriptor syncs every write. */
function kindOf(fd) {
  if (kinds.has(fd)) return kinds.get(fd);
  let kind;
  try {
    if (fs.readlinkSync(`/proc/self/fd/${fd}`) === process.env.BENCH_LOG) {
      const flags = /flags:\s+([0-7]+)/.exec(fs.readFileSync(`/proc/self/fdinfo/${fd}`, "utf8"));
      kind = { syncs: (Number.parseInt(flags[1], 8) & O_DSYNC) === O_DSYNC };
      kinds.set(fd, kind); // the log stays open; other numbers may come to name it later
    }
  } catch {}
  return kind;
}

function noteWrite(kind, bytes) {
  if (!kind.syncs) unsyncedBytes += bytes;
  else {
    counts.syncs++;
    counts.syncedBytes += bytes;
  }
}

/** Begins a sync; what it returns is called when the sync has succeeded. */
function beginSync() {
  const bytes = unsyncedBytes;
  return () => {
    counts.syncs++;
    counts.syncedBytes += bytes;
    unsyncedBytes -= bytes;
  };
}

function wrapCallbacks(names, begin) {
  for (const name of names) {
    const original = fs[name];
    fs[name] = (fd, ...rest) => {
      const done = rest.at(-1);
      const kind = kindOf(fd);
      if (kind === undefined) return original(fd, ...rest);
      const end = begin(kind);
      return original(fd, ...rest.slice(0, -1), (error, ...results) => {
        if (!error) end(results[0]);
        done(error, ...results);
      });
    };
  }
}

async function wrapHandles(names, begin) {
  const handle = await open("/dev/null");
  const prototype = Object.getPrototypeOf(handle);
  await handle.close();
  for (const name of names) {
    const original = prototype[name];
    prototype[name] = async function (...rest) {
      const kind = kindOf(this.fd);
      if (kind === undefined) return original.apply(this, rest);
      const end = begin(kind);
      const result = await original.apply(this, rest);
      end(result?.bytesWritten);
      return result;
    };
  }
}

const beginWrite = (kind) => (bytes) => noteWrite(kind, bytes);
wrapCallbacks(["write", "writev"], beginWrite);
wrapCallbacks(["fdatasync", "fsync"], beginSync);
await wrapHandles(["write", "writev"], beginWrite);
await wrapHandles(["datasync", "sync"], beginSync);
syncBuiltinESMExports();

process.on("message", (word) => {
  if (word === "counts")
    process.send({ ...counts, arrayBufferBytes: process.memoryUsage().arrayBuffers });
});
process.channel?.unref();
