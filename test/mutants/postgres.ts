/** Mistakes over PostgreSQL. Most need a server, which `npm run test:full` finds; without one they are not tried. */
export const POSTGRES = `
postgres/batch-writer.ts
a row that the statement does not return is answered 200: postgres/failing-statements.slow
- if (row === undefined) void this.#hold(entry, number);
+ if (row === undefined) this.#resolve(entry, [String(entry.plant.id), entry.plant.name, entry.plant.tag ?? null, null, number], number);
the number of the batch is not compared: postgres/failing-statements.slow
- else resolve(plant === entry.plant && row[4] === number ? "created" : "replayed");
+ else resolve(plant === entry.plant ? "created" : "replayed");
the deadline of a create is ignored: postgres/failing-statements.slow
- if (deadline <= now) reject(writeFailed(new DatabaseFault("The deadline is over")));
+ if (deadline <= 0) reject(writeFailed(new DatabaseFault("The deadline is over")));
postgres/connection.ts
the notice of a cancelled wait is ignored: postgres/failing-statements.slow
- if (isDoubt(notice)) this.#doubt = String(notice.message);
+ if (isDoubt(notice)) this.#doubt = undefined;
the name in the certificate of the database is not compared: postgres/tls.installed
- mode === "verify-ca" ? undefined : tls.checkServerIdentity(host, certificate),
+ mode === "verify-full" ? undefined : tls.checkServerIdentity(host, certificate),
postgres/database-url.ts
TLS is off by default if one host is local: postgres/database-url
- const byDefault = hosts.every(isLocal) ? "disable" : "verify-full";
+ const byDefault = hosts.some(isLocal) ? "disable" : "verify-full";
sslmode=require checks less than all: postgres/database-url
- mode: mode === "require" ? "verify-full" : mode,
+ mode: mode === "require" ? "verify-ca" : mode,
postgres/database.ts
a host of a lower timeline than was seen is used: postgres/replaced-host
- if (found.timeline < this.#timeline) {
+ if (found.timeline < 0) {
two hosts of one timeline are not told apart: postgres/hosts.installed
- if (found.timeline < timeline || isSameServer(found, best.found)) continue;
+ if (found.timeline <= timeline) continue;
postgres/standby-proof.ts
a commit is proven by no standby: postgres/hosts.installed
- if (Number(count) >= countNeeded(names ?? "")) return;
+ if (Number(count) >= 0) return;
postgres/inspection.ts
a table that is not logged is accepted: postgres/settings.installed
- AND t.relpersistence OPERATOR(pg_catalog.<>) 'p')\`]:
+ AND t.relpersistence OPERATOR(pg_catalog.=) 't')\`]:
a database without fsync is accepted: postgres/settings.installed
- [setting("fsync", "off")]: alterSystem("fsync is off: a crash loses plants", "fsync = on"),
+ [setting("fsync", "never")]: alterSystem("fsync is off: a crash loses plants", "fsync = on"),
postgres/schema.ts
a repeat takes over the number of the batch: postgres/conformance.installed
- ON CONFLICT (id) DO UPDATE SET batch = p.batch
+ ON CONFLICT (id) DO UPDATE SET batch = excluded.batch
what text cannot hold is not kept exactly: postgres/conformance.installed
- isText ? "NULL" : encodeElement(encodeNewPlant(plant)),
+ isText ? "NULL" : "NULL",
postgres/postgres-plants.ts
the plant of the cursor is listed again: postgres/conformance.installed
- yield isCursor ? rows.slice(1) : rows;
+ yield rows;
cli/database.ts
a password is accepted as an argument: postgres/command-line.installed
- if (PASSWORD.test(database) && process.argv.some((word) => word.includes(database))) {
+ if (PASSWORD.test(database) && process.argv.some((word) => word.includes("-d "))) {
the password of a URL in a file is shown: postgres/command-line.installed
- throw new UsageError(\`\${shown}: \${error.message}\`);
+ throw new UsageError(\`\${shown}: \${error.message}: \${text}\`);
`;
