/** Whether the parser feeds a body to its collector without a stream, and what happens if not. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { isDirectSafe } from "../../src/http/body.ts";
import { makeFolder } from "../support/folders.ts";
import { readModule } from "../support/run.ts";
import { collectWarnings, TIMEOUT } from "../support/watch.ts";

test("this version of Node hands bodies over directly, without a warning", async (t) => {
  const warnings = collectWarnings(t);
  assert.equal(await isDirectSafe(), true);
  assert.deepEqual(warnings, []);
});

/** Patches of a parser `p` that is just made. */
const OTHERS: readonly [what: string, patch: string, isDirect: boolean][] = [
  ["is that of this Node", "", true],
  [
    "pushes bytes that are no Buffer",
    "p[BODY] = function (bytes) { this.incoming.push(new Uint8Array(bytes)); };",
    true,
  ],
  [
    "reads bodies past push",
    "p[BODY] = function (bytes) { Readable.prototype.push.call(this.incoming, bytes); };",
    false,
  ],
  [
    "ends bodies past push",
    `const end = p[END];
    p[END] = function () { this.incoming.push = Readable.prototype.push; end.call(this); };`,
    false,
  ],
  [
    "makes requests of its own class",
    `const begin = p[HEAD];
    p[HEAD] = function (...args) {
      this.socket.server[kIncomingMessage] = IncomingMessage;
      return begin.apply(this, args);
    };`,
    false,
  ],
  [
    "keeps it to itself that a client has left",
    `const begin = p[HEAD];
    p[HEAD] = function (...args) {
      const result = begin.apply(this, args);
      this.incoming._destroy = IncomingMessage.prototype._destroy;
      return result;
    };`,
    false,
  ],
];

/** FAKE: serves under a Node of another time, made of this one; prints the warnings. */
function encodeProgram(patch: string, folder: string): string {
  const [index, post] = ["src/index.ts", "test/support/post.ts"].map((file) =>
    JSON.stringify(new URL(`../../${file}`, import.meta.url).href),
  );
  return `
    import { subscribe } from "node:diagnostics_channel";
    import { IncomingMessage } from "node:http";
    import { createRequire } from "node:module";
    import { Readable } from "node:stream";
    const { createToken, PlantServer, PlantStore, TokenRegistry } = await import(${index});
    const { postPlant } = await import(${post});
    const common = createRequire(${index})("_http_common");
    const { parsers, kIncomingMessage } = common;
    const { kOnHeadersComplete: HEAD, kOnBody: BODY, kOnMessageComplete: END } = common.HTTPParser;
    const make = parsers.ctor;
    parsers.list.length = 0;
    parsers.ctor = (...args) => { const p = make(...args); ${patch}; return p; };
    const warnings = [];
    subscribe("plant-store:warning", ({ message }) => warnings.push(message));
    const folder = ${JSON.stringify(folder)};
    const token = await createToken(folder, { name: "test" });
    const plants = await PlantStore.open(folder);
    const tokens = await TokenRegistry.open(folder);
    const server = await PlantServer.start({ port: 0, plants, tokens });
    const statuses = [];
    for (const body of ['{"id":1,"name":"Färn"}', '{"id":2,"name":"' + "ä".repeat(150000) + '"}']) {
      statuses.push((await postPlant(server.url, token, body)).status);
    }
    await server.close();
    tokens.close();
    await plants.close();
    process.stdout.write(JSON.stringify({ statuses, warnings }));
  `;
}

for (const [what, patch, isDirect] of OTHERS) {
  test(`if the parser ${what}, plants are stored exactly`, TIMEOUT, async (t) => {
    const folder = makeFolder(t);
    const { statuses, warnings } = await readModule<Record<"statuses" | "warnings", unknown[]>>(
      encodeProgram(patch, folder),
    );
    assert.deepEqual([statuses, warnings.length], [[200, 200], isDirect ? 0 : 1]);
    assert.equal(
      readFileSync(join(folder, "plants.jsonl"), "utf8"),
      `{"id":1,"name":"Färn"}\n{"id":2,"name":"${"ä".repeat(150_000)}"}\n`,
    );
  });
}
