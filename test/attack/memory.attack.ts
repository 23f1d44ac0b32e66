/**
 * Thousands of connections, each of which sends the costliest input of its kind and never finishes:
 * a server with a heap of 256 MB survives them, and serves other clients.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { bytesOf, Crowd, type Shape } from "../support/crowd.ts";
import { TIMEOUT } from "../support/watch.ts";

/** Almost as many as a server with that heap accepts by default. */
const CONNECTIONS = 3200;
const KIB_MAX = 48;
const CREATES = 200;
const P99_MS_MAX = 100;
const SHAPES: readonly Shape[] = [
  "tiny headers",
  "large headers",
  "creates",
  "trailers",
  "streams",
];

for (const shape of SHAPES) {
  test(
    `beside ${CONNECTIONS} connections with ${shape} the server still serves other clients`,
    TIMEOUT,
    async (t) => {
      const crowd = await Crowd.start(t);
      const before = await crowd.usedBytes();
      await crowd.connect(bytesOf(shape, crowd.trial), CONNECTIONS);
      const kib = ((await crowd.usedBytes()) - before) / CONNECTIONS / 1024;
      const times: number[] = [];
      for (let at = 0; at < CREATES; at++) {
        const begun = performance.now();
        assert.equal(await crowd.trial.create(1_000_000 + at), 200);
        times.push(performance.now() - begun);
      }
      const p99 = times.sort((a, b) => a - b)[Math.floor(CREATES * 0.99)] ?? 0;
      t.diagnostic(`${shape}: ${kib.toFixed(1)} KiB a connection, at most ${KIB_MAX}`);
      t.diagnostic(`${shape}: p99 of creates ${p99.toFixed(0)} ms, at most ${P99_MS_MAX}`);
      assert.ok(kib <= KIB_MAX, `${kib} KiB a connection`);
      assert.ok(p99 <= P99_MS_MAX, `${p99} ms`);
    },
  );
}
