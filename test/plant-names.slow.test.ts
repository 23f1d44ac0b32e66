/** Real input: stores every name of a list over HTTP, one by one, and reads all of them back. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import http from "node:http";
import { test } from "node:test";
import { createToken } from "../src/index.ts";
import { runCli, startServer } from "./support/cli.ts";
import { makeFolder } from "./support/folders.ts";
import { readLog } from "./support/stores.ts";

/** The answer for each plant, without its braces; a line without a tag ends after its tab. */
const MEMBERS = readFileSync(new URL("fixtures/plant-names.tsv", import.meta.url), "utf8")
  .trimEnd()
  .split("\n")
  .map((line) => {
    const [name = "", tag = ""] = line.split("\t");
    return JSON.stringify(tag === "" ? { name } : { name, tag }).slice(1, -1);
  });

/** Uses one connection and `node:http`, because `fetch` would take most of the time. */
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

function post(url: string, token: string, body: string): Promise<{ status: number; text: string }> {
  const headers = {
    Authorization: `Bearer ${token}`,
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
  };
  return new Promise((resolve, reject) => {
    const req = http.request(`${url}/plants`, { method: "POST", agent, headers }, (res) => {
      let text = "";
      res.setEncoding("utf8");
      res.on("data", (part: string) => {
        text += part;
      });
      res.on("end", () => resolve({ status: res.statusCode ?? 0, text }));
    });
    req.on("error", reject);
    req.end(body);
  });
}

test("the plants of a long list of real names are answered, stored and listed in order", async (t) => {
  assert.ok(MEMBERS.length >= 1000, `only ${MEMBERS.length} names`);
  assert.ok(MEMBERS.some((members) => !members.includes('"tag"')));
  assert.ok(MEMBERS.some((members) => members.includes('"tag"')));
  t.after(() => agent.destroy());
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "names" });
  const server = await startServer(t, ["--data", folder]);
  const encodeLine = (members: string, at: number) => `{"id":${at + 1},${members}}`;

  for (const [at, members] of MEMBERS.entries()) {
    const { status, text } = await post(server.url, token, encodeLine(members, at));
    assert.deepEqual([status, text], [200, `{${members}}`]);
  }
  const log = MEMBERS.map((members, at) => `${encodeLine(members, at)}\n`).join("");
  assert.equal(readLog(folder) === log, true, "the log holds each line once, in order");
  const list = await runCli(["list", "--data", folder]);
  assert.equal(list.stdout === log, true, "list prints the log");
  assert.equal((await server.stop()).status, 0);

  const again = await startServer(t, ["--data", folder]);
  for (const at of [0, MEMBERS.length - 1]) {
    const members = MEMBERS[at] ?? "";
    const { status, text } = await post(again.url, token, encodeLine(members, at));
    assert.deepEqual([status, text], [200, `{${members}}`]);
  }
  assert.equal((await again.stop()).status, 0);
  assert.equal(readLog(folder) === log, true, "a replay writes nothing");
});
