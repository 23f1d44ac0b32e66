/** The memory of connections that send the costliest input of each kind; `npm run attack` opens thousands. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, Crowd, type Shape } from "../support/crowd.ts";
import { TIMEOUT } from "../support/watch.ts";

const CONNECTIONS = 500;
const KIB_MAX = 48;
/** How much of a stream is read. */
const READ_BYTES = 8 * 1024 * 1024;
const SHAPES: readonly Shape[] = ["tiny headers", "large headers", "creates"];

test(
  `a connection holds at most ${KIB_MAX} KiB of memory, no matter what it sends`,
  TIMEOUT,
  async (t) => {
    for (const shape of SHAPES) {
      await t.test(`${shape}`, async (t) => {
        const crowd = await Crowd.start(t);
        const before = await crowd.usedBytes();
        await crowd.connect(bytesOf(shape, crowd.trial), CONNECTIONS);
        const kib = ((await crowd.usedBytes()) - before) / CONNECTIONS / 1024;
        assert.ok(kib <= KIB_MAX, `${kib} KiB a connection`);
        assert.equal(await crowd.trial.create(1_000_000), 200);
      });
    }
  },
);

for (const shape of ["streams", "streams and tiny headers"] as const) {
  test(
    `30 clients that pipeline while they read hold at most 64 MiB: ${shape}`,
    TIMEOUT,
    async (t) => {
      const crowd = await Crowd.start(t);
      const before = await crowd.usedBytes();
      const bytes = bytesOf(shape, crowd.trial);
      const repeated = Buffer.concat(Array.from({ length: 20 }, () => bytes));
      await crowd.connect(repeated, 30, READ_BYTES);
      const mib = ((await crowd.usedBytes()) - before) / 2 ** 20;
      assert.ok(mib <= 64, `${mib} MiB`);
      assert.equal(await crowd.trial.create(1_000_000), 200);
    },
  );
}
