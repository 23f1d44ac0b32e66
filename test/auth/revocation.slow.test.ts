/** A running server refuses a token 2 s after its revocation, also if it was frozen meanwhile. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { runCli, startServer } from "../support/cli.ts";
import { makeFolder } from "../support/folders.ts";
import { postPlant } from "../support/service.ts";
import { TIMEOUT } from "../support/watch.ts";

for (const isFrozen of [false, true]) {
  const server = isFrozen ? "a server that was frozen meanwhile" : "a server";
  test(
    `${server} refuses a token 2 s after "token revoke", and accepts others`,
    TIMEOUT,
    async (t) => {
      const data = ["--data", makeFolder(t)];
      const { url, process } = await startServer(t, data);
      const create = async (name: string) =>
        (await runCli(["token", "create", name, ...data])).stdout.trim();
      const [thief, app] = [await create("thief"), await create("app")];
      const post = async (token: string) =>
        (await postPlant(url, token, '{"id":1,"name":"F"}')).status;
      assert.deepEqual([await post(thief), await post(app)], [200, 200]);
      if (isFrozen) process.kill("SIGSTOP");
      assert.equal((await runCli(["token", "revoke", "thief", ...data])).status, 0);
      await sleep(2000);
      const statuses = Promise.all([post(thief), post(app)]); // the first waits in the socket
      if (isFrozen) process.kill("SIGCONT");
      assert.deepEqual(await statuses, [401, 200]);
    },
  );
}
