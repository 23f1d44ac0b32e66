/**
 * Mistakes that the simulation has to find, by the worlds whose lives show them.
 *
 * Not in the list, because no life shows them in a minute: a cut at a start that is not synced (the whole log is
 * synced next), a folder whose own name is not synced (a later sync of
 * any folder covers it), a log that is opened without O_DSYNC, a damaged checkpoint that counts as none. They have tests of
 * their own (`log`, `store`), or show in `kernel`.
 */
export const SIMULATED = `
log/file.ts
an append whose sync failed is durable: crash
-       await this.#undo(written, end, cause);
a refused append stays in the file: crash
-       if (found > 0) await this.#cut(this.end);
a failed cut is taken for a failed sync: crash
- throw unsyncedError(\`\${why}; nor can it be undone: \${describeSystemError(error)}\`, error);
+ throw new PlantStoreError("store_failed", why, { cause: error });
an append does not check its file: meddling
-     this.assertUnchanged(end);
what a killed process left of a new file stays in it: crash
-     disk.unlink(newPath); // of a process that was killed
a rename is not durable: crash
-     await withUnsynced(\`Cannot sync "\${filePath}"\`, () => disk.syncFolder(path.dirname(filePath)));
log/folder.ts
a start does not make the name of its log durable: crash
-   await disk.syncFolder(folder);
log/writer.ts
a batch is acknowledged while it is written: crash
-       await this.#file.append(bytes);
+       void this.#file.append(bytes).catch(() => {});
the writer goes on after an unknown outcome: crash
-       error = isRefusal ? this.#refuse(cause) : this.fail(cause);
+       error = this.#refuse(cause as PlantStoreError); void isRefusal;
a repeat gets its 200 while others may have cut the log: meddling
-       await (this.#writing ?? this.#file.assertUnchanged());
+       if (this.#writing === undefined) this.#file.assertUnchanged();
store/plant-store.ts
a plant is shown before it is durable: crash
-     const { start, at } = this.#writer.append(encodeNewPlant(plant));
+     index.add(id, this.#writer.end.bytes + this.#writer.queuedBytes); const { start, at } = this.#writer.append(encodeNewPlant(plant));
store/open.ts
an id that is there twice is served: meddling
-     if (index.size < scan.plants) {
+     if (index.size < 0) {
a start serves a log that it has not synced: crash
-       await log.file.sync(); // another program may have copied it here
a torn end stays: crash
-     if (tail !== undefined) await cutTail(file, end.bytes, tail);
a start takes a missing log beside a checkpoint for a new one: rot
-     if (checkpoint !== undefined) throw changedError(logPath, "it is missing", checkpoint);
a start takes half a restore for a new store: crash
-     if (disk.stat(\`\${logPath}.new\`) !== undefined) {
+     if (logPath === "") {
a reader reads what is not durable: crash
-     if (holder === undefined) return yield* scan.lines({ file, checkpoint });
+     if (holder?.durableBytes !== 0) return yield* scan.lines({ file, checkpoint });
store/scan.ts
a log that its checkpoint does not know is served or copied: rot
- isAsKnown = crc32 === checkpoint.crc32;
+ isAsKnown = crc32 >= 0;
a start cuts what is no torn end: meddling
-   return firstLine < 0 || rest.subarray(0, firstLine).includes(0);
+   return firstLine < rest.length;
store/verify-repair.ts
a repair keeps nothing of what it leaves out: rot
-       if (rest.length > 0) await quarantine(file.path, Buffer.concat(rest));
a repair leaves the checkpoint of the old log: rot
-   await writeCheckpoint(file.path, end, lock);
auth/token-file.ts
a change of tokens is reported before it is durable: crash
-     await replaceFile(tokensPathOf(directory), (file) => file.append(Buffer.from(text)), lock);
+     void replaceFile(tokensPathOf(directory), (file) => file.append(Buffer.from(text)), lock);
tokens are changed without their lock: crash
-   const lock = await locks.acquire(directory, LOCK);
+   const lock = { assertHeld() {}, close: async () => void LOCK }; void locks;
`;
