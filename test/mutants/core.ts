/** Mistakes in what a plant and a token are, and in the store, that tests have to find. */
export const CORE = `
core/json.ts
an id one above the largest int64 is accepted: core/plant
- export const INT64_MAX = 2n ** 63n - 1n;
+ export const INT64_MAX = 2n ** 63n;
the smallest int64 is refused: core/plant
- export const INT64_MIN = -(2n ** 63n);
+ export const INT64_MIN = -(2n ** 63n) + 1n;
an id of 16 digits is rounded: core/plant-encoded
- if (text.length <= 15) return
+ if (text.length <= 17) return
a fraction is an id: core/json-int64
- if (zeros < 0) return undefined;
+ if (zeros < 0) return parseCanonicalInt64(sign + digits);
a control character is accepted in a string: core/json
- while (code >= 0x20 && code !== QUOTE
+ while (code >= 0x01 && code !== QUOTE
core/plant.ts
a body that is not UTF-8 is accepted: core/plant
-   if (!isUtf8(bytes)) {
+   if (bytes === undefined) {
a member that is given twice is accepted: core/plant
- } else if (length > 1) {
+ } else if (length > 2) {
a tag that is null is no tag: core/plant
-   const tag = read("tag", "a string", parseString);
+   const tag = literals.tag[0] === "null" ? undefined : read("tag", "a string", parseString);
an empty tag is no tag: contract/contract
- && a.tag === b.tag;
+ && (a.tag || undefined) === (b.tag || undefined);
a name is trimmed: contract/contract
- return id === undefined ? undefined : newPlant(id, name, tag);
+ return id === undefined ? undefined : newPlant(id, name.trim(), tag);
core/text.ts
a backslash in a name is written as it is: core/text
-  || code === QUOTE || code === BACKSLASH) return false;
+  || code === QUOTE) return false;
a control character reaches the terminal: core/text
- return PRINTABLE.test(text) ? text : text.replace(UNSHOWN, escapeCharacter);
+ return text;
a token is shown in a log: core/text
-   return text.replace(/pst_[\\w-]+/g, "pst_...");
+   return text;
core/errors.ts
an error number changes: contract/contract
-   unknown_plant: 40402,
+   unknown_plant: 40403,
core/token.ts
a member of a token that is not known is ignored: auth/token-bits
-   requireMembers(members, RECORD_MEMBERS);
a token is good at the moment when it expires: core/token
- now < expiresAt);
+ now <= expiresAt);
an expiry is compared the wrong way: auth/token-log
- now < expiresAt);
+ now > expiresAt);
a revoked token is good: core/token
- return revokedAt === undefined && (
+ return (
a token is stored as it is: auth/token-file
- return { name, hash: hashToken(token),
+ return { name, hash: Buffer.from(token).toString("hex").slice(0, 64),
a verdict is as old as the younger clock says: core/token-live
- return Math.max(clock.steadyMs()
+ return Math.min(clock.steadyMs()
a wrong token waits for a poll: core/token-live
-     if (!isGood) throw this.#unreadable();
a token that expires is good for what has begun: auth/token-registry-looks
- if (record === undefined || !isLive(record, this.#clock.wallMs())) return false;
+ if (record === undefined) return false;
auth/token-log.ts
a revocation that ends no token is accepted: auth/token-bits
-       if (!ended?.length) throw damage("name: expected that of a token that is not revoked yet");
+       if (ended === undefined) return;
a revoked token is live if a line creates it once more: auth/token-log
- const known = this.#tokens.get(token.hash);
+ const known = undefined as Token | undefined;
auth/token-registry.ts
a token file that was just changed is not read again: auth/token-registry-looks
- Number(state.ctimeMs) < AT_REST_MS) return undefined;
+ Number(state.ctimeMs) < -1e15) return undefined;
log/resync.ts
a sync that failed is tried again: log/resync
-     await file.sync();
+     await file.sync().catch(() => file.sync());
store/plant-store.ts
a conflict is answered as a repeat: store/lookups
-   if (isSamePlant(stored, repeated)) return "replayed";
+   if (stored.id === repeated.id) return "replayed";
a repeat is written twice: store/plant-store
-     if (taken !== undefined) {
+     if (taken === -1) {
a second close of a store does not wait: store/plant-store
-     this.#closing ??= this.#close();
+     if (this.#closing !== undefined) return Promise.resolve(); this.#closing = this.#close();
a page after a plant that does not exist is empty: store/plant-store-log
-     if (start === undefined) throw unknownCursor(after);
+     if (start === undefined) return;
store/records.ts
a line that is read from the log may be another plant: store/lookups
- && finder.hasId(id);
+ && id !== undefined;
a page repeats the plant of its cursor: store/plant-store-log
- return isKnown ? after === undefined || offset !== start : undefined;
+ return isKnown ? true : undefined;
store/import-export.ts
a line is counted as created that was overloaded after a refused one: store/import
-         outcome = await tryCreate(plants, record);
+         outcome = report.refused > 0 ? "created" : await tryCreate(plants, record);
store/backup.ts
a restore does not sync the parent of its folder: store/backup
-       await syncFolderAndName(directory);
+       await disk.syncFolder(directory);
a restore goes into a folder that holds something: store/backup
-     if (found === undefined) return;
+     if (found !== LOG_NAME) return;
store/start.ts
an import, a repair or a server does not lock its folder: store/plant-store-log
-   return locks.acquire(directory, { name: LOCK_NAME, command, durableBytes });
+   return locks.acquire(directory, { name: \`\${process.hrtime.bigint()}\`, command, durableBytes });
`;
