/** Mistakes in the program and its listener for the operator that tests have to find. */
export const PROGRAM = `
admin/server.ts
a page of another site may read the figures: admin/server
-     if (isLocal && !isSafeHost(req.headers.host)) {
+     if (!isLocal && !isSafeHost(req.headers.host)) {
the body of a request is read to its end: admin/server
-     Connection: "close",
+     Connection: "keep-alive",
a server that is not ready says that it is: admin/server
- state === "ready" ? 200 : 503, { state, message });
+ 200, { state, message });
admin/page-parts.ts
a name of a token becomes markup: admin/status-page
- return String(value).replace(/[&<>"']/g, toReference);
+ return String(value);
cli/program.ts
a damaged log is worth a restart: cli/commands
- ["corruption", "unsynced", "invalid_json"];
+ ["unsynced", "invalid_json"];
cli/output.ts
a control character of a plant reaches the terminal: cli/outputs
- lines.map((line) => \`\${escapeControls(line)}\\n\`)
+ lines.map((line) => \`\${line}\\n\`)
cli/log.ts
a token that a client sends in its path is logged: cli/log-format
-   return escapeControls(JSON.stringify(shorten(text, CHARACTERS_MAX)));
+   return escapeControls(JSON.stringify(text));
a quote in a path forges a member of its line: cli/log-format
- const HARMLESS = /^[ !#-
+ const HARMLESS = /^[ -
a token in a harmless path is logged: cli/log-format
-   if (isShort && HARMLESS.test(text) && !text.includes("pst_")) return
+   if (isShort && HARMLESS.test(text)) return
a log that nobody reads takes all memory: cli/log
-     if (hasRoom()) lines += line;
+     if (true) lines += line;
cli/serve.ts
the first token is written to the log: cli/serve
-   await tokens.refresh();
+   process.stderr.write(token + "\\n"); await tokens.refresh();
a store that fails ends the server as if it were asked to: cli/admin
- if (failure === undefined) return 0;
+ if (failure?.message !== "") return 0;
cli/token-commands.ts
a token is printed before running servers know it: cli/serve
- const WAIT_MS = POLL_INTERVAL_MS + 100;
+ const WAIT_MS = 0;
cli/data-commands.ts
a repair goes ahead without being asked: cli/commands
-     if (!yes) {
+     if (yes) {
plants of a file are created before a bad line of it is found: cli/commands
-     if (wrong > 0) {
+     if (wrong < 0) {
a line of a file that is too long is found after others were created: cli/commands
-     validatePlant(plant);
cli/store.ts
root writes into the folder of another user: cli/root
-   if (process.geteuid?.() === 0 && uid !== 0) {
+   if (process.geteuid?.() === 0 && uid < 0) {
`;
