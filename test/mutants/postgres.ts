/** Mistakes over PostgreSQL. Most need a server, which `npm run test:full` finds; without one they are not tried. */
export const POSTGRES = `
postgres/creates.ts
a row that the statement does not return gets a 200: postgres/conformance.installed
- if (row === undefined) void this.#tryLater(entry);
+ if (row === undefined) entry.resolve(["", entry.plant.name, null, null, entry.batchNumber]);
postgres/connection.ts
the notice of a cancelled wait is ignored: postgres/conformance.installed
- if (isWarning || code.startsWith("57P")) this.#unconfirmedCommit = message;
+ if (isWarning || code.startsWith("57P")) this.#unconfirmedCommit = undefined;
the name in the certificate of the database is not compared: postgres/tls.installed
- const checkServerIdentity = sslmode === "verify-ca" ? () => undefined : tls.checkServerIdentity;
+ const checkServerIdentity = sslmode !== "disable" ? () => undefined : tls.checkServerIdentity;
the settings of a role hide a notice: postgres/faults.installed
- options: OPTIONS,
+ options: OPTIONS.replace("client_min_messages=warning", "client_min_messages=error"),
postgres/url.ts
TLS is off by default if one host is local: postgres/url
- const isLocal = hosts.every(({ host }) => LOCAL_HOST.test(host));
+ const isLocal = hosts.some(({ host }) => LOCAL_HOST.test(host));
postgres/hosts.ts
a host of a lower timeline than was seen is used: postgres/faults.installed
- if (connection.timeline < this.#timeline) {
+ if (connection.timeline < 0) {
postgres/database.ts
a commit is proven by no standby: postgres/unfit.installed
- if (row?.[1] === "t") break;
+ if (row) break;
a connection that a firewall has forgotten is kept: postgres/unfit.installed
- for (const each of late) if (!working.flat().includes(each.pid)) each.close();
+ for (const each of late) if (working.flat().includes(each.pid)) each.close();
postgres/schema.ts
a database without fsync is accepted: postgres/unfit.installed
- WHEN current_setting('fsync') <> 'on' THEN 'run: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();'
+ WHEN current_setting('fsync') = 'never' THEN 'run: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();'
a probe does not commit: postgres/tokens.installed
- export const PROBE = \`WITH commit AS MATERIALIZED (SELECT pg_logical_emit_message(true, 'plant_store', ''))
+ export const PROBE = \`WITH commit AS MATERIALIZED (SELECT 1)
what text cannot hold is not kept exactly: postgres/conformance.installed
- return row.name === name && row.tag === tag ? row : { ...row, exact: encodeNewPlant(plant) };
+ return row;
cli/store.ts
the password of a URL in a file is shown: postgres/command-line.installed
- throw new UsageError(\`\${named}: \${error.message.replace("url: ", "")}\`);
+ throw new UsageError(\`\${named}: \${error.message}: \${typeof url === "string" ? url : url()}\`);
`;
