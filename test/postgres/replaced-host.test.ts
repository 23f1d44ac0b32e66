/** A host that is replaced at a moment which no real server can be brought to. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { PostgresPlants } from "../../src/postgres/index.ts";
import { makeLatch, TIMEOUT, until } from "../support/watch.ts";
import { answerCreate, answerLook, fakeDriver, type Host, idsOf, NEVER } from "./fake-driver.ts";

/** Rows as a primary, or as its standby, answers them. */
function answer(isStandby: boolean, text: string, values: readonly string[]): unknown[] {
  const ids = idsOf(text, values);
  return ids === undefined ? answerLook(isStandby) : answerCreate(ids, values[4]);
}

test(
  "a connection to a host that was replaced while it was made is not used",
  TIMEOUT,
  async (t) => {
    const { released, release } = makeLatch();
    let isReplaced = false; // from the next look on
    let isSilent = false;
    let connects = 0;
    let sent = "";
    let isBack = false;
    const old: Host = {
      async connect() {
        if (isSilent && ++connects === 1) await released;
        else if (isSilent) throw new Error("refused");
      },
      async query(text, values) {
        const isLook = !text.includes("INSERT");
        if (!isLook) sent = values[0] ?? "";
        isSilent ||= isReplaced && isLook;
        // After its return its reads work, and its commits wait for a standby that it has no more.
        const isReturned =
          connects > 0 && isLook && (await Promise.race([released, false])) !== false;
        if (isReturned) isBack = true;
        return isSilent && !isReturned ? NEVER : answer(false, text, values);
      },
    };
    const next: Host = {
      async connect() {},
      async query(text, values) {
        return answer(!isSilent, text, values);
      },
    };
    const plants = await PostgresPlants.open({
      pg: fakeDriver({ 1: old, 2: next }),
      url: "postgresql://a@127.0.0.1:1,127.0.0.1:2/garden",
    });
    t.after(() => plants.close());
    await plants.create({ id: 1n, name: "Fern" });
    isReplaced = true;
    await until("the old host is silent", () => isSilent);
    const creates = [plants.create({ id: 2n, name: "Fern" })];
    await until("a connection is busy", () => sent === "{2}");
    creates.push(plants.create({ id: 3n, name: "Fern" }));
    await until("the other host is in use", () => plants.state().host === "127.0.0.1:2");
    release();
    await until("the old host has answered", () => isBack);
    for (const id of [4n, 5n, 6n]) creates.push(plants.create({ id, name: "Fern" }));
    assert.deepEqual(new Set(await Promise.all(creates)), new Set(["created"]));
  },
);

test("a host of a lower timeline than was seen is not used", TIMEOUT, async (t) => {
  let isGone = false;
  let creates = 0;
  const hostOf = (timeline: number, isAway: () => boolean): Host => ({
    async connect() {
      if (isAway()) throw new Error("refused");
    },
    async query(text, values) {
      if (isAway()) throw new Error("closed");
      const ids = idsOf(text, values);
      if (ids === undefined) return answerLook(false, timeline);
      if (timeline === 1) creates++;
      return answerCreate(ids, values[4]);
    },
  });
  const plants = await PostgresPlants.open({
    pg: fakeDriver({ 1: hostOf(1, () => !isGone), 2: hostOf(2, () => isGone) }),
    url: "postgresql://a@127.0.0.1:1,127.0.0.1:2/garden",
    databaseDeadlineMs: 1000,
  });
  t.after(() => plants.close());
  await plants.create({ id: 1n, name: "Fern" });
  isGone = true; // the old host, which was replaced, is all that is left
  await assert.rejects(plants.create({ id: 2n, name: "Fern" }), { code: "write_failed" });
  assert.equal(creates, 0);
});
