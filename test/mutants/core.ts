/** Mistakes in what a plant and a token are, and in the store, that tests have to find. */
export const CORE = `
core/json.ts
an id of 16 digits is rounded: contract/contract
- if (text.length <= 15) return
+ if (text.length <= 17) return
core/plant.ts
a plant whose line is too long is stored: store/plant-store
-   if (bytes <= RECORD_BYTES_MAX) return plant;
+   if (bytes <= 2 * RECORD_BYTES_MAX) return plant;
core/plant-matcher.ts
an id that is matched is rounded: core/plant-matcher
- if (Math.abs(idHigh) < 2 ** 20) return
+ if (Math.abs(idHigh) < 2 ** 30) return
core/token.ts
a member of a token that is not known is ignored: auth/token-file
- && text === encodeTokenRecord(record);
+ && text !== "";
a revoked token is good: core/token
- return revokedAt === undefined && (
+ return (
a token is stored as it is: auth/token-file
- return { name, hash: hashToken(token),
+ return { name, hash: Buffer.from(token).toString("hex").slice(0, 64),
a revocation counts for one token of the name: auth/tokens
- return tokens.map((token) => (isMeant(token) ?
+ return tokens.map((token) => (token === tokens.find(isMeant) ?
core/live-tokens.ts
a verdict has no age: core/live-tokens
-     return this.age() < VERDICT_MS;
+     return this.age() >= 0;
a verdict is as old as the younger clock says: core/live-tokens
- return () => Math.max(
+ return () => Math.min(
a token that was accepted is accepted for ever: auth/token-registry
-     this.#accepted = new Map();
auth/token-registry.ts
a server may serve tokens that are not on disk: auth/token-registry
- const sync = async () => file?.sync();
+ const sync = async () => {};
a token file that cannot be read leaves its tokens good: auth/token-registry
-       const { message } = error as Error;
+       const { message } = error as Error; this.accept(startAge(clock));
log/disk.ts
a symbolic link is followed to a log: log/disk
- APPEND_FLAGS = O_RDWR | O_APPEND | O_CREAT | O_NOFOLLOW |
+ APPEND_FLAGS = O_RDWR | O_APPEND | O_CREAT |
an append is acknowledged before its sync: kernel/sync-order
- O_NOFOLLOW | (O_DSYNC ?? O_SYNC);
+ O_NOFOLLOW;
a folder is opened and not synced: kernel/sync-order
- const handle = await fsPromises.open(folder, O_RDONLY);
+ const handle = await fsPromises.open("/dev/null", O_RDONLY);
log/file.ts
a refusal does not notice that the log has gone meanwhile: log/file
-     if (isRefusal) this.assertUnchanged(); // nor was it changed while the cut was synced
a file is replaced though its lock is lost: log/file
-     lock?.assertHeld();
a start whose quarantine is not synced may be tried again: store/open
-     if (cause instanceof PlantStoreError && cause.code !== "store_failed") throw cause;
+     if (cause instanceof PlantStoreError) throw cause;
log/lines.ts
a line that is longer than a record is skipped: log/lines
-       if (!isPiece && bytes.length < size) return; // the tail
+       if (!isPiece) return;
log/checkpoint.ts
a damaged checkpoint counts as none: log/checkpoint
-   throw new PlantStoreError("corruption", \`"\${filePath}" is damaged; \${advice}\`);
+   return undefined;
log/folder.ts
the folder above is not synced: store/open
-     await disk.syncFolder(\`\${folder}/..\`); // the real parent, even behind a symbolic link
log/lock.ts
a number is used twice: log/lock
- const close = () => new Promise<void>((resolve) => server.close(() => resolve()));
+ const close = () => new Promise<void>((resolve) => server.close(() => { for (const suffix of suffixesOf(lockPath)) fs.rmSync(\`\${lockPath}.\${suffix}\`); resolve(); }));
a process that does not respond counts as dead: log/lock
- return code === "ECONNREFUSED" || code === "ENOENT" ? undefined : "silent";
+ return undefined;
a slower process takes the lock from its holder: log/lock
-     if (highestOf(lockPath) !== next) throw lockedError(directory);
a lock that another process has taken is held: log/lock
- throwIfNoEntry: false })?.ino === ino) return;
+ throwIfNoEntry: false }) !== undefined) return;
log/writer.ts
a failed cut counts less than what failed before: log/writer
-     if (isUnsynced) this.failure.cause = cause; // it decides the exit status
+     void isUnsynced;
on a slow disk two halves of the clients take turns: log/writer
-     this.#awaited = isShort && syncMs >= SLOW_SYNC_MS ? clients : 0;
what waits for the disk has no bound: log/writer
- if (this.queuedBytes > 0 && this.queuedBytes + bytes > this.#queueBytesMax) {
+ if (this.queuedBytes > this.#queueBytesMax) {
store/plant-store.ts
a copied checkpoint is not made durable: store/open
- if (end.bytes === this.#checkpointBytes) return;
+ if (end.bytes === (this.#checkpointBytes ?? this.#log.end.bytes)) return;
a conflict gets the response of a repeat: contract/contract
-   if (isSamePlant(stored, repeated)) return "replayed";
+   if (stored.id === repeated.id) return "replayed";
a line that is read from the log may be another plant: store/plant-store
-       if (matchPlant(line)?.id === id) return line;
+       if (line.length > 0) return line;
a store that is idle does not notice that its log is gone: store/plant-store
-         await this.#writer.assertUnchanged();
a checkpoint replaces that of another log: store/open
- writeCheckpoint(file.path, end, { assertHeld });
+ writeCheckpoint(file.path, end, this.#log.lock);
a log is closed while a list is read: store/plant-store
-     this.#reading.add(reading);
store/newest-lines.ts
memory keeps every line: store/newest-lines
- .delete(number - this.#piecesMax)
store/id-index.ts
an offset of more than 32 bits is cut: store/id-index
- [slot / 2] = offset + 1;
+ [slot / 2] = (offset + 1) >>> 0;
store/open.ts
a start without room for quarantine is refused: store/open
-     if (error && !isNoRoom(error.cause)) throw error;
+     if (error !== undefined) throw error;
store/scan.ts
an unfinished write of a running server is left out of a backup without a word: store/repair
-     const mayBeTorn = !isHeld && isAsKnown
+     const mayBeTorn = isAsKnown
a log that was cut below its checkpoint is served: store/logs
-     if (!isAsKnown && problem === undefined) throw changedError(file.path, changed, checkpoint);
a damaged checkpoint of an empty log goes unnoticed: store/logs
-     let isAsKnown = checkpoint.bytes === 0 && checkpoint.crc32 === 0;
+     let isAsKnown = checkpoint.bytes === 0;
store/import-export.ts
an import goes on after an error of the store: store/import
- if ((outcome.number ?? STORE_ERRORS) >= STORE_ERRORS) throw outcome;
a blank line is refused by an import, and kept by a repair: store/import, store/logs
- return /^[ \\t\\r\\n]*$/.test(record.toString("latin1")) ? undefined : parseNewPlant(record);
+ return record.length === 0 ? undefined : parseNewPlant(record);
store/verify-repair.ts
a repair loses what another program has appended meanwhile: store/repair
- { assertHeld: () => file.assertUnchanged() }
+ lock
a repair that was killed is never made durable: store/repair
-       await withIoError(\`Cannot sync "\${directory}"\`, () => syncFolderAndName(directory));
a repair keeps the last plant of an id: store/logs
-     return index.add(plant.id, 0) === undefined ?
+     return index.add(plant.id, 0) !== -1 ?
a repair loses a last line without a line feed: store/logs
-   await file.append(NEW_LINE);
an unfinished restore is repaired to an empty store: store/logs
-     await assertMayBeMissing(logPath);
store/backup.ts
a copy ends with its first block: store/backup, store/logs
- await copy.append(lines);
+ { await copy.append(lines); break; }
a restore goes into a folder that holds something: store/backup
-   if (found !== undefined) throw
+   if (found === LOG_NAME) throw
a backup that fails leaves its folder: store/backup
-         remove(folder, COPIED, lock);
a copy does not lock its folder: store/backup
- name: LOCK_NAME, command }).catch(
+ name: \`\${process.hrtime.bigint()}\`, command }).catch(
an old backup that was served is removed with its plants: store/backup
-     if (other !== undefined) throw
+     if (other === "") throw
store/open.ts
an import, a repair or a server does not lock its folder: store/open
- const lock = await locks.acquire(directory, { name: LOCK_NAME, command, durableBytes });
+ const lock = await locks.acquire(directory, { name: \`\${process.hrtime.bigint()}\`, command, durableBytes });
`;
