/**
 * Mistakes that the simulation has to find: each changes one line of the source.
 *
 * Invariant. The text of each is found once in its file, so that a change of the source cannot take it out of
 * the list unseen.
 */
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { simulate } from "./runner.ts";

export interface Mutant {
  readonly name: string;
  /** In `src`. */
  readonly file: string;
  /** In one line of the file, and nowhere else. */
  readonly old: string;
  readonly new: string;
}

/** A mistake. */
function mutant(name: string, file: string, old: string, text = ""): Mutant {
  return { name, file, old, new: text };
}

const FILE = "log/file.ts";
const WRITER = "log/writer.ts";
const MEND = "log/mend.ts";
const RESYNC = "log/resync.ts";
const CHECKPOINT = "log/checkpoint.ts";
const START = "store/open-log.ts";
const REPAIR = "store/repair.ts";
const TOKENS = "auth/token-file.ts";
const REGISTRY = "auth/token-registry.ts";

export const MUTANTS: readonly Mutant[] = [
  // What a start found, and others never synced.
  mutant("a start does not sync what it found", RESYNC, "    await file.sync();"),
  mutant("a start forgets that a sync has failed", RESYNC, "    await remember(file.path, cause);"),
  mutant(
    "a sync that failed is tried again",
    RESYNC,
    "    await file.sync();",
    "    await file.sync().catch(() => file.sync());",
  ),
  mutant(
    "a start does not make the log durable",
    START,
    "if (await makeDurable(file, end, (earliest) => scan.startOfRewrite(earliest))) {",
    "if (file.end < 0) {",
  ),
  mutant(
    "a start does not write the last batch again",
    RESYNC,
    "    await file.overwrite(bytes, offset);",
  ),
  mutant(
    "a start does not ask the disk for the last batch",
    RESYNC,
    "if (!(await isOnDisk(file, batch, end.bytes))) {",
    "if (file.end < 0) {",
  ),
  mutant(
    "a start serves what the page cache has left of a log that was not synced",
    START,
    "if (isUnsynced(file.path) && (",
    "if (file.end < 0 && (",
  ),
  mutant(
    "a token is created in a log that an editor has not synced",
    TOKENS,
    "  await makeDurable(file, {",
    "  if (file.end < 0) await makeDurable(file, {",
  ),
  mutant(
    "tokens are listed that are not on disk",
    TOKENS,
    "  await syncTokens(tokenPath(directory));",
  ),

  // Names.
  mutant(
    "a new file has no durable name",
    FILE,
    "        if (!isTemporary) await syncFolderAndName(path.dirname(filePath));",
  ),
  mutant(
    "a folder that another program made has no durable name",
    "log/folder.ts",
    "if (disk.find(parent)?.dev === disk.find(directory)?.dev) await disk.syncFolder(parent);",
  ),
  mutant(
    "a name is taken away before it is given",
    "log/folder.ts",
    "  disk.rename(from, to);",
    "  disk.unlink(to); disk.rename(from, to);",
  ),
  mutant(
    "a rename is not durable",
    "log/folder.ts",
    "  await syncFolderAndName(path.dirname(to));",
  ),

  // Appends.
  mutant(
    "an append whose sync failed is durable",
    FILE,
    "      return this.#undo(bytes, written, cause);",
  ),
  mutant(
    "a short append is whole",
    FILE,
    "      while (written < bytes.length) {",
    "      if (written < bytes.length) {",
  ),
  mutant(
    "an append does not look for its file",
    FILE,
    '    if (displacement !== undefined) return { outcome: "unknown", cause: this.#fault(displacement) };',
  ),
  mutant(
    "an append after a failed sync may be tried again",
    FILE,
    "if (isCounted && isRefusal(cause)) return",
    "if (isCounted) return",
  ),
  mutant(
    "a refused append stays in the file",
    FILE,
    "    if (written.length > 0) this.#forChanges.truncate(this.#end);",
  ),
  mutant(
    "the bytes of another process are cut",
    FILE,
    '    if (!found.equals(written)) throw this.#fault("does not end with the bytes of this process");',
  ),
  mutant(
    "a batch is answered while it is written",
    WRITER,
    "    const result = await written;",
    '    const result = { outcome: "durable" } as AppendResult;',
  ),
  mutant(
    "a refused batch is answered as durable",
    WRITER,
    'else if (result.outcome === "refused") this.#refuse(batch, result.cause);',
    'else if (result.outcome === "refused") this.#acknowledge(batch, this.durableBytes, undefined);',
  ),
  mutant(
    "the writer goes on after an unknown outcome",
    WRITER,
    "batch.fail(this.fail(result.cause));",
    "this.#refuse(batch, result.cause);",
  ),
  mutant(
    "a batch is answered with the one before it",
    WRITER,
    "      this.#acknowledge(batch, start, syncMs);",
    "      this.#acknowledge(batch, start, syncMs); next?.batch.acknowledge(start);",
  ),
  mutant(
    "all batches share a buffer",
    WRITER,
    "    this.#buffer = Buffer.allocUnsafeSlow(Math.min(ROOM_BYTES, bytesMax));",
    "    this.#buffer = ((globalThis as { room?: Buffer }).room ??= Buffer.alloc(ROOM_BYTES));",
  ),
  mutant(
    "the checkpoint counts a batch that is being written",
    WRITER,
    "    return { batch, startedAt, written: this.#file.append(batch.bytes) };",
    "    this.#options.onDurable?.(extendCheckpoint(this.#end, batch.bytes, batch.records), batch.bytes); return { batch, startedAt, written: this.#file.append(batch.bytes) };",
  ),

  // Answers.
  mutant(
    "a repeat is answered while its plant is written",
    "core/creates-in-flight.ts",
    "return judgeRepeat(await inFlight, plant);",
    'return "replayed";',
  ),
  mutant(
    "a plant is shown before it is durable",
    "store/plant-store.ts",
    "    const offset = await this.#writer.append(encodeNewPlant(plant));",
    "    const offset = this.#writer.durableBytes + this.#writer.queuedBytes; this.#log.index.add(plant.id, offset); await this.#writer.append(encodeNewPlant(plant));",
  ),
  mutant(
    "a repeat is answered from a log that is gone",
    "store/plant-reader.ts",
    "const displacement = this.#file.displacement(durableBytes, Number.POSITIVE_INFINITY);",
    'const displacement = durableBytes < 0 ? "" : undefined;',
  ),
  mutant(
    "an id with two contents is a repeat",
    "store/log-scan.ts",
    'kind: isRepeat ? "repeat" : "conflict"',
    'kind: "repeat"',
  ),

  // What a start accepts.
  mutant(
    "a start leaves out lines that it cannot read",
    START,
    'else if (kind !== "repeat") throw',
    "else if (position.line < 0) throw",
  ),
  mutant(
    "a start does not compare the checksum",
    START,
    "  requireKnownBytes(file.path, checkpoint, scan);",
  ),
  mutant(
    "a start takes a missing log for a new one",
    START,
    "  if (!exists(logPath)) requireKnownBytes(logPath, checkpoint);",
  ),
  mutant(
    "a damaged checkpoint counts",
    CHECKPOINT,
    "if (check === undefined || check !== hex(crc32(text))) return undefined;",
    "if (check === undefined) return undefined;",
  ),
  mutant(
    "lost sectors are mended anywhere",
    MEND,
    "  const start = Math.max(knownBytes, await earliestBatchStart(file, size));",
    "  const start = Math.min(0, size);",
  ),
  mutant(
    "lost sectors are mended nowhere",
    MEND,
    "  return sectorsOf(line, offset).some(({ isLost }) => isLost);",
    "  return false;",
  ),

  // What a start takes out.
  mutant(
    "a torn tail is not copied",
    MEND,
    "    for (const range of ranges) await target.appendRange(file, range);",
  ),
  mutant("a torn tail stays", MEND, "      await file.truncate(tail.offset);"),
  mutant(
    "a quarantine file is written to again",
    MEND,
    "!== undefined) number++;",
    "=== null) number++;",
  ),
  mutant(
    "a last line without its line feed is torn",
    MEND,
    "  const isWhole = text !== undefined && (isBlank(text) || isRecord(text));",
    "  const isWhole = text !== undefined && isBlank(text);",
  ),
  mutant(
    "a last line does not get its line feed",
    MEND,
    "  await file.appendOrThrow(Buffer.of(LINE_FEED));",
  ),
  mutant(
    "a lost line is blanked in one write",
    MEND,
    '    if (!isLost) line.fill(" ", start, end);',
  ),
  // Checkpoints.
  mutant(
    "a checkpoint is not synced before its rename",
    CHECKPOINT,
    "      file.appendOrThrow(Buffer.from(encodeCheckpoint(checkpoint))),",
    "      file.overwrite(Buffer.from(encodeCheckpoint(checkpoint)), 0),",
  ),
  // Repair, backup, restore.
  mutant(
    "a repair does not keep the old log",
    REPAIR,
    "    if (kept === undefined) disk.link(logPath, keptPath);",
  ),
  mutant("a repair does not sync the log that it keeps", REPAIR, "    await file.sync();"),
  mutant(
    "a repair leaves the checkpoint of the old log",
    REPAIR,
    "    await removeCheckpoint(logPath);",
  ),
  mutant(
    "a backup copies what is not durable",
    "store/plant-log.ts",
    "  const size = durableBytes ?? file.size();",
    "  const size = file.size();",
  ),
  mutant(
    "a restore gives the log its name first",
    "store/backup.ts",
    "[checkpointPath(LOG_NAME), TOKEN_LOG_NAME, LOG_NAME]",
    "[LOG_NAME, checkpointPath(LOG_NAME), TOKEN_LOG_NAME]",
  ),
  mutant(
    "an old backup is removed under its name",
    "store/numbered-backups.ts",
    "        const unfinished = unfinishedName(found);",
    "        const unfinished = found;",
  ),

  // Tokens.
  mutant(
    "a token is printed before it is durable",
    TOKENS,
    '    await append({ event: "created", ...record });',
    '    void append({ event: "created", ...record });',
  ),
  mutant(
    "a token counts as revoked before that is durable",
    TOKENS,
    '    await append({ event: "revoked", name, revokedAt: now });',
    '    void append({ event: "revoked", name, revokedAt: now });',
  ),
  mutant(
    "the token file is read once",
    REGISTRY,
    "stamp !== undefined && stamp === this.#stamp;",
    "this.#stamp !== undefined;",
  ),
  mutant(
    "a token file that was just changed is not read again",
    REGISTRY,
    "if (state === undefined || clock.wallMs() - Number(state.ctimeMs) < FRESH_MS) return undefined;",
    "if (state === undefined) return undefined;",
  ),
  mutant(
    "a token file that cannot be read leaves its tokens good",
    REGISTRY,
    "      this.#warnOnce(error as Error);",
    "      this.#tokens.note(begun);",
  ),
  mutant(
    "a verdict has no age",
    "core/followed-tokens.ts",
    "wallMs) < VERDICT_MS;",
    "wallMs) >= 0;",
  ),
];

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** @returns the file with the mistake. @throws if the text is not found, or more than once. */
export function breakSource({ name, file, old, new: text }: Mutant, root = ROOT): string {
  const parts = readFileSync(join(root, "src", file), "utf8").split(old);
  if (parts.length !== 2) throw new Error(`${name}: found ${parts.length - 1} times in ${file}`);
  return parts.join(text);
}

interface MutantOptions {
  /** How many are tried at once. */
  readonly processes: number;
  /** How long for each. */
  readonly seconds: number;
  /** A part of their names. */
  readonly only: string | undefined;
}

/** @returns whether all were found; prints each. */
export async function tryMutants({ processes, seconds, only = "" }: MutantOptions) {
  const left = MUTANTS.filter(({ name }) => name.includes(only));
  let isEachFound = true;
  const next = async (): Promise<void> => {
    const mutant = left.shift();
    if (mutant === undefined) return;
    const { isFound, line } = await tryMutant(mutant, seconds);
    isEachFound &&= isFound;
    process.stdout.write(`${line}\n`);
    await next();
  };
  await Promise.all(Array.from({ length: processes }, next));
  return isEachFound;
}

/** On one core. */
async function tryMutant(mutant: Mutant, seconds: number) {
  const root = mkdtempSync(join(tmpdir(), "plant-store-mutant-"));
  try {
    for (const part of ["package.json", "src", "test/simulation"]) {
      cpSync(join(ROOT, part), join(root, part), { recursive: true });
    }
    symlinkSync(join(ROOT, "node_modules"), join(root, "node_modules"));
    writeFileSync(join(root, "src", mutant.file), breakSource(mutant));
    const begun = performance.now();
    const { failure, rounds } = await findFailure(root, begun + seconds * 1000);
    const took = `${((performance.now() - begun) / 1000).toFixed(1)} s, ${rounds} rounds`;
    const found = failure === undefined ? "NOT FOUND" : `seed ${failure.seed}, ${failure.kind}`;
    return { isFound: failure !== undefined, line: `${mutant.name}: ${found} (${took})` };
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
}

/** The first life that fails in this copy, and does not fail without the mistake. */
async function findFailure(root: string, endMs: number) {
  let rounds = 0;
  for (let part = 1; ; part++) {
    const seconds = (endMs - performance.now()) / 1000;
    if (seconds <= 0) return { rounds };
    const how = { first: `mutant-${part}`, seconds, processes: 1, isShortened: false };
    const broken = await simulate({ ...how, root });
    rounds += broken.rounds;
    const [failure] = broken.failures;
    if (failure === undefined) return { rounds };
    const { failures } = await simulate({ ...how, seeds: [failure.seed], seconds: 0 });
    if (failures.length === 0) return { failure, rounds };
  }
}
