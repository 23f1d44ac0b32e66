/** A disk that takes its time over a sync: who waits for it, and who does not. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { Client } from "../support/client.ts";
import { encodeRequest, type RequestParts } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { readLog, writeLog } from "../support/stores.ts";
import { canTrace, faulty } from "./machine.ts";
import { assertLog, plant, Trial } from "./trial.ts";

const TIMEOUT = { timeout: 60_000 };

/** Long against everything that is to happen meanwhile, on the slowest machine. */
const SYNC_MS = 2000;

test("a sync under way holds up creates that need it, and no other answer", TIMEOUT, async (t) => {
  if (!canTrace(t)) return;
  const folder = makeFolder(t);
  const { read, wrapper } = faulty(t, folder, `pwrite64:delay_enter=${SYNC_MS * 1000}`);
  writeLog(folder, `${plant(1)}\n`);
  // Reading a stored plant takes a thread of its own beside the one that waits for the disk.
  const trial = await Trial.start(t, { folder, wrapper, env: { UV_USE_IO_URING: "0" } });

  const sent = performance.now();
  let isAnswered = false;
  const slow = trial.create(100).then((outcome) => {
    isAnswered = true;
    // At the moment of the answer the record is there, also for whoever came second.
    assert.ok(readLog(folder).includes(plant(100)), "answered after it was written");
    return outcome;
  });
  const again = trial.create(100);

  const others: readonly [RequestParts, status: number][] = [
    [{ headers: { Authorization: undefined }, body: plant(2) }, 401],
    [{ headers: { Authorization: "Bearer pst_unknown" }, body: plant(2) }, 401],
    [{ target: "/nowhere", body: plant(2) }, 404],
    [{ method: "PUT" }, 405],
    [{ body: "{" }, 400],
    [{ body: plant(1) }, 200],
    [{ body: plant(1, "another") }, 400],
  ];
  const statuses = await Promise.all(others.map(([parts]) => statusOf(trial, parts)));
  assert.deepEqual(
    statuses,
    others.map(([, status]) => status),
  );
  assert.equal(isAnswered, false, "all of these overtook it");

  assert.deepEqual(await Promise.all([slow, again]), [200, 200]);
  assert.ok(performance.now() - sent > SYNC_MS / 2, "the sync was slow indeed");
  assert.equal((await trial.stop()).status, 0);
  assertLog(folder, [plant(1), plant(100)]);
  const writes = read()
    .split("\n")
    .filter((line) => line.includes('\\"id\\":100,'));
  assert.equal(writes.filter((line) => line.includes("pwrite64(")).length, 1, "written once");
});

async function statusOf(trial: Trial, parts: RequestParts): Promise<number> {
  const client = await Client.connect(trial.server.port);
  try {
    await client.send(encodeRequest(trial, parts));
    return (await client.next()).status;
  } finally {
    client.destroy();
  }
}
