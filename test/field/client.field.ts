/** The client, packed and installed, under Node, Deno and Bun, over a proxy that fails. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { createToken } from "../../src/index.ts";
import { serveFailing } from "../client/failing-proxy.ts";
import { installLibrary, ROOT, whyNotInstalled } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { startService } from "../support/service.ts";
import { HANG_MS, TIMEOUT } from "../support/watch.ts";
import { RUNTIMES } from "./runtimes.ts";

const COUNT = 60;

describe("the client", { skip: whyNotInstalled("test/field"), ...TIMEOUT }, () => {
  for (const [name, words] of RUNTIMES) {
    test(`under ${name} creates every plant once, and lists all, through a proxy that fails`, async (t) => {
      const folder = await installLibrary(t);
      cpSync(path.join(ROOT, "test/field/programs/client.mjs"), path.join(folder, "client.mjs"));
      let token = "";
      const service = await startService(t, {
        prepare: async (data) => {
          token = await createToken(data, { name: "client", scopes: ["write", "read"] });
        },
      });
      const { url } = await serveFailing(t, service.port);
      const program = [...words, "client.mjs", url, token, String(COUNT)];
      const { status, stdout, stderr } = await runToEnd(program, { cwd: folder, timeout: HANG_MS });
      assert.equal(status, 0, stderr);
      const { answered, listed } = JSON.parse(stdout);
      assert.equal(answered.length, COUNT);
      assert.deepEqual(answered.sort(), service.logLines().sort());
      assert.deepEqual(listed, service.logLines());
    });
  }
});
