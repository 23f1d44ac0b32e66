/** The contract, row by row, on a log in a folder, on a store in memory, and mounted in another server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ERRORS } from "../../src/core/errors.ts";
import { ALL } from "../cases/all.ts";
import { FAILURES, ORDER_OF_FAILURES } from "../cases/failures.ts";
import { FAILING_STORE, FILE, MEMORY, MOUNTED } from "./backends.ts";
import { runContract } from "./runner.ts";

for (const backend of [FILE, MEMORY, MOUNTED]) runContract(backend, ALL);
runContract(FAILING_STORE, [...FAILURES, ...ORDER_OF_FAILURES]);

test("every error number has a row", () => {
  const rows = [...ALL, ...FAILURES].flatMap(({ gets }) => gets);
  const slow: number[] = [ERRORS.request_timeout]; // in test/http/limits.slow
  const without = Object.values(ERRORS).filter((n) => !rows.includes(n) && !slow.includes(n));
  assert.deepEqual(without, []);
});
