/**
 * Mistakes that the simulation has to find, by the violations that show each.
 *
 * Not in the list, because no life shows them in a minute: a cut at a start that is not synced (the whole log is
 * synced next), a checkpoint that is written in place or after the lock is lost, a log that is opened without
 * O_DSYNC, lost sectors that are mended more than a MiB before the end, a refused append that is cut and not
 * synced. They have tests of their own (`log`, `store`, `simulation/platter`), or show in `npm run crash`.
 */
export const SIMULATED = `
log/resync.ts
a start does not sync what it found: not durable, lost
-     await file.sync();
a start forgets that a sync has failed: not durable, lost, index
-     await remember(file.path, cause);
a start does not write the last batch again: not durable, lost
-     await file.overwrite(bytes, offset);
a start does not ask the disk for the last batch: not durable, lost
- if (!(await isOnDisk(file, batch, end.bytes))) {
+ if (file.end < 0) {
a copy of a log goes on with one that was not finished: start: locked, start: unsynced, twice, index, served damage, token log, token
-     disk.unlink(newPath); // of a process that was killed
store/start.ts
a start does not make the log durable: not durable, lost
- if (await makeDurable(file, end, (earliest) => scan.startOfRewrite(earliest))) {
+ if (file.end < 0) {
a start serves what the page cache has left of a log that was not synced: lost, served damage
- if (isUnsynced(file.path) && (
+ if (file.end < 0 && (
a start leaves out lines that it cannot read: served damage, lost
- else if (kind !== "repeat") throw
+ else if (position.line < 0) throw
a start does not compare the checksum: served damage
-   requireKnownBytes(file.path, checkpoint, scan);
a start takes a missing log for a new one: made
-   if (!exists(logPath)) requireKnownBytes(logPath, checkpoint);
a start does not sync the checkpoint that it found: refused, not durable
- const isSynced = await syncCheckpoint(logPath);
+ const isSynced = true;
an id with two contents is a repeat: served damage, changed
- kind: isRepeat ? "repeat" : "conflict"
+ kind: "repeat"
auth/token-file.ts
a token is created in a log that an editor has not synced: not durable, token lost
-   await makeDurable(file, {
+   if (file.end < 0) await makeDurable(file, {
tokens are listed that are not on disk: not durable
-   await syncTokens(tokenPath(directory));
a token is printed before it is durable: not durable, token lost
-     await append({ event: "created", ...record });
+     void append({ event: "created", ...record });
a token counts as revoked before that is durable: not durable, token lost
-     await append({ event: "revoked", name, revokedAt: now });
+     void append({ event: "revoked", name, revokedAt: now });
log/file.ts
a new file has no durable name: not durable, lost, token lost
-         if (!isTemporary) await syncFolderAndName(path.dirname(filePath));
an append whose sync failed is durable: not durable, lost
-       return this.#undo(bytes, written, cause);
an append does not look for its file: not durable, lost
-         this.assertInPlace(this.#end + written);
an append after a failed sync may be tried again: not durable, lost, twice, needless write_failed
- if (isCounted && isRefusal(cause)) return
+ if (isCounted) return
a refused append stays in the file: needless store_failed, twice
-       this.#file.truncate(this.#end);
an append does not ask whether the lock is held: twice, changed, not durable, lost, index, backup
-     if (this.#lock?.findLoss() !== undefined) {
+     if (this.#end < 0) {
the bytes of another process are cut: removed
-     if (!found.equals(written)) throw this.#fault("does not end with the bytes of this process");
log/folder.ts
a folder that another program made has no durable name: not durable, lost
- if (disk.find(parent)?.dev === disk.find(directory)?.dev) await disk.syncFolder(parent);
a name is taken away before it is given: lost, token lost, removed
-   disk.rename(from, to);
+   disk.unlink(to); disk.rename(from, to);
a rename is not durable: not durable, lost, token lost
-   await syncFolderAndName(path.dirname(to));
log/writer.ts
a batch is answered while it is written: not durable, lost
-     const result = await written;
+     const result = { outcome: "durable" } as AppendResult;
a refused batch is answered as durable: not durable, lost, index
- else if (result.outcome === "refused") this.#refuse(batch, result.cause);
+ else if (result.outcome === "refused") this.#acknowledge(batch, this.durableBytes, undefined);
the writer goes on after an unknown outcome: not durable, lost, twice, index, needless write_failed
- batch.fail(this.fail(result.cause));
+ this.#refuse(batch, result.cause);
the checkpoint counts a batch that is being written: refused, lost
-     return { batch, startedAt, written: this.#file.append(batch.bytes) };
+     this.#options.onDurable?.(extendCheckpoint(this.#end, batch.bytes, batch.records), batch.bytes); return { batch, startedAt, written: this.#file.append(batch.bytes) };
store/plant-store.ts
a repeat is answered while its plant is written: not durable, index, lost
- return judgeRepeat(await inFlight, plant);
+ return "replayed";
a plant is shown before it is durable: not durable, index, list, conflict
-     const offset = await this.#writer.append(record);
+     const offset = this.#writer.durableBytes + this.#writer.queuedBytes; this.#log.index.add(plant.id, offset); await this.#writer.append(record);
store/lookups.ts
a repeat is answered from a log that is gone: not durable, lost
-     if (failure !== undefined) throw failure;
a list is read from a log that is gone: list, not durable, lost
-         this.#assertInPlace(); // a log that was replaced has other plants
plants are shown that were read from a log that is gone: not durable, lost
-     // Nothing is awaited from here on: the next list is read into the same buffer.
+     if (end < 0)
a read that fails does not look for the log: needless write_failed
-     if (failure !== undefined) return failure;
log/checkpoint.ts
a damaged checkpoint counts: refused
- if (check === undefined || check !== hex(crc32(text))) return undefined;
+ if (check === undefined) return undefined;
a checkpoint is not synced before its rename: not durable, backup
-       file.appendOrThrow(Buffer.from(encodeCheckpoint(checkpoint))),
+       file.overwrite(Buffer.from(encodeCheckpoint(checkpoint)), 0),
log/mend.ts
lost sectors are mended nowhere: refused
-   return sectorsOf(line, offset).some(({ isLost }) => isLost);
+   return false;
a torn tail is not copied: removed
-     for (const range of ranges) await target.appendRange(file, range);
a torn tail stays: served damage, refused
-       await file.truncate(tail.offset);
a quarantine file is written to again: quarantine changed
- !== undefined) number++;
+ === null) number++;
a last line without its line feed is torn: token lost, lost
-   const isWhole = text !== undefined && (isBlank(text) || isRecord(text));
+   const isWhole = text !== undefined && isBlank(text);
store/verify-repair.ts
a repair does not keep the old log: removed
-     if (kept === undefined) disk.link(logPath, keptPath);
a repair does not make durable what it accepts or keeps: removed, not durable, lost
-     makeDurable(log, scan.end, (earliest) => scan.startOfRewrite(earliest)),
+     Promise.resolve(),
a repair leaves the checkpoint of the old log: removed, refused, repair
-     await removeCheckpoint(logPath);
store/backup.ts
a restore gives the log its name first: half a copy
- [checkpointPath(LOG_NAME), TOKEN_LOG_NAME, LOG_NAME]
+ [LOG_NAME, checkpointPath(LOG_NAME), TOKEN_LOG_NAME]
a backup is made under its name: half a copy
- partial = \`\${path.resolve(target)}.partial-\${clock.randomBytes(4).toString("hex")}\`,
+ partial = path.resolve(target),
a backup that fails leaves what was not finished: backup, leftover
- const report = await fill(partial);
+ const report = await fill(partial).catch((error) => { partial = "/none"; throw error; });
one numbered backup too many is removed: backups, backup
- const tooMany = older.slice(0, Math.max(0, older.length + 1 - keep));
+ const tooMany = older.slice(0, Math.max(0, older.length + 2 - keep));
an old backup is removed under its name: half a copy, backup, backups
-         const unfinished = unfinishedName(found);
+         const unfinished = found;
auth/token-registry.ts
the token file is read once: token accepted
- stamp !== undefined && stamp === this.#stamp;
+ this.#stamp !== undefined;
a token file that cannot be read leaves its tokens good: token accepted
-       this.#warnOnce(error as Error);
+       this.note(begun);
a request with a token waits as long as a look: token late
-       waitMs: VERDICT_MS,
+       waitMs: 1e9,
core/token.ts
a verdict has no age: token accepted
- this.#clock) < VERDICT_MS;
+ this.#clock) >= 0;
`;

/** Faults that lives have found, and that were fixed: each takes the fix out. */
export const FIXED = `
log/checkpoint.ts
an empty file is renamed to a checkpoint: leftover
-   const isEmpty = disk.find(unsyncedPath(logPath))?.size === 0n;
+   const isEmpty = false;
log/folder.ts
an error of the system leaves a function of the store: raw error
-     throw ioError(\`Cannot look for "\${filePath}"\`, cause);
+     throw cause;
store/backup.ts
a restore that fails leaves what it has placed: half a copy
-     for (const each of placed.reverse()) removeLeftover(each);
a backup whose name is not durable stays: backup, half a copy
-         takeBack(target, partial);
log/resync.ts
tokens are listed that only the page cache has: not durable
-         await remember(logPath, OTHER_BYTES);
store/start.ts
a log that was replaced is closed twice: raw error
-       file = await LogFile.open(logPath, lock);
+       await old.close(); file = await LogFile.open(logPath, lock);
a start that cannot read closes a log amid its sync: repair, start: corruption, start: unsynced, refused
- const scan = await read().finally(() => syncing);
+ const scan = await read(); await syncing;
`;

/**
 * Lives that show a mistake that few of them show; they also run before each commit (`simulation.test.ts`). When
 * lives are drawn in another way, others have to be looked for.
 */
export const SEEDS: Readonly<Record<string, string>> = {
  "an empty file is renamed to a checkpoint": "mutant-1.18",
  "an error of the system leaves a function of the store": "mutant-1.10",
  "a restore that fails leaves what it has placed": "mutant-1.34",
  "a backup whose name is not durable stays": "mutant-1.214",
  "tokens are listed that only the page cache has": "q.365",
  "a log that was replaced is closed twice": "mutant-1.18",
  "a start that cannot read closes a log amid its sync": "fa.4868",
};
