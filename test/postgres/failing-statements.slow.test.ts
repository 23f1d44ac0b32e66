/** Statements that fail, and hosts that are replaced, in ways no real server can be brought to. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { PostgresPlants } from "../../src/postgres/index.ts";
import { collectWarnings, makeLatch, TIMEOUT, until } from "../support/watch.ts";
import { answer, answerCreate, fakeDriver, idsOf, NEVER, serverError } from "./fake-driver.ts";
import { openStore } from "./stores.ts";

/** The SQLSTATE of a row that breaks a rule of the table. */
const REFUSED = "23514";
/** One that says nothing of what became of the statement. */
const UNKNOWN = "XX000";
const LOCKED = "55P03";
const URL = "postgresql://a@127.0.0.1:1/garden";

interface Behaviour {
  /** Throws if the server refuses to create these plants; may return the batch of their rows. */
  readonly create?: (
    ids: readonly string[],
    batch: string,
    notify: (notice: object) => void,
  ) => string | undefined;
  /** The id of a row that the statement does not return. */
  readonly without?: string;
  /** By id: the column `exact` of a row, `null` in all others. */
  readonly exact?: Readonly<Record<string, string>>;
  readonly connect?: () => Promise<void>;
  readonly databaseDeadlineMs?: number;
}

/** A store over a server that behaves like this. */
async function open(t: TestContext, behaviour: Behaviour) {
  const { create = () => undefined, exact = {}, without, databaseDeadlineMs } = behaviour;
  const host = {
    connect: behaviour.connect ?? (async () => {}),
    async query(text: string, values: readonly string[], notify: (notice: object) => void) {
      const ids = idsOf(text, values);
      if (ids === undefined) return answer(text);
      const number = values[4] ?? "";
      const rows = answerCreate(ids, create(ids, number, notify) ?? number, exact);
      return rows.filter((_, at) => ids[at] !== without);
    },
  };
  return openStore(t, { pg: fakeDriver({ 1: host }), url: URL, databaseDeadlineMs });
}

/** The outcomes of creates in the same turn. */
function createAll(plants: PostgresPlants, ...ids: readonly bigint[]): Promise<string[]> {
  const creates = ids.map((id) => plants.create({ id, name: "Fern" }));
  return Promise.all(creates.map((create) => create.catch(({ code }) => code)));
}

test("a row that is refused fails alone, at once, and is warned about", TIMEOUT, async (t) => {
  const warnings = collectWarnings(t);
  const create = (ids: readonly string[]) => {
    if (ids.includes("1")) throw serverError(REFUSED);
    return undefined;
  };
  const { plants } = await open(t, { create });
  const outcomes = await createAll(plants, 1n, 2n, 3n, 4n);
  assert.deepEqual(outcomes, ["write_failed", "created", "created", "created"]);
  assert.equal(warnings.filter(({ cause }) => String(cause).includes(REFUSED)).length, 1);
});

test("a row that holds no readable record is a conflict, and is sent once", TIMEOUT, async (t) => {
  const sent: string[] = [];
  const create = (ids: readonly string[]) => {
    sent.push(...ids);
    return undefined;
  };
  const { plants } = await open(t, { create, exact: { 1: "{broken" } });
  assert.deepEqual(await createAll(plants, 1n, 2n, 3n), ["conflict", "created", "created"]);
  assert.deepEqual([sent, plants.status().queueBytes], [["1", "2", "3"], 0]);
});

test("a row whose statement always fails for no known reason is soon alone", TIMEOUT, async (t) => {
  const create = (ids: readonly string[]) => {
    if (ids.includes("1")) throw serverError(UNKNOWN);
    return undefined;
  };
  const { plants } = await open(t, { create, databaseDeadlineMs: 300 });
  const persist = async (id: bigint) => {
    for (let outcome = ""; !/created|replayed|closed/.test(outcome); ) {
      [outcome = ""] = await createAll(plants, id);
    }
  };
  void persist(1n);
  await Promise.all(Array.from({ length: 9 }, (_, at) => persist(BigInt(at + 2))));
});

test("a locked row whose response was lost is created, not repeated", TIMEOUT, async (t) => {
  let stored: string | undefined;
  const errors = [LOCKED, UNKNOWN];
  const create = (_ids: readonly string[], batch: string) => {
    const error = errors.shift();
    if (error !== LOCKED) stored ??= batch;
    if (error !== undefined) throw serverError(error);
    return stored;
  };
  assert.deepEqual(await createAll((await open(t, { create })).plants, 1n), ["created"]);
});

test("a create that no connection takes has its outcome at the deadline", TIMEOUT, async (t) => {
  let isSilent = false;
  const connect = () => (isSilent ? NEVER : Promise.resolve());
  const { plants, close } = await open(t, { connect, databaseDeadlineMs: 250 });
  isSilent = true;
  const created = createAll(plants, 1n);
  await close();
  assert.deepEqual(await Promise.race([created, "none"]), ["write_failed"]);
});

for (const [what, code, routine, times] of [
  ["whose wait for the standby was cancelled is sent again", "01000", "SyncRepWaitForLSN", 2],
  ["with a warning about transaction numbers is not", "01000", "GetNewTransactionId", 1],
] as const) {
  test(`a create ${what}, and was created once`, TIMEOUT, async (t) => {
    const batches: string[] = [];
    const create = (_: readonly string[], batch: string, notify: (notice: object) => void) => {
      batches.push(batch);
      if (batches.length === 1) notify({ code, routine, message: "a notice" });
      return batches[0];
    };
    assert.deepEqual(await createAll((await open(t, { create })).plants, 1n), ["created"]);
    assert.equal(batches.length, times);
  });
}

test("a plant whose row does not come back is not stored", TIMEOUT, async (t) => {
  const { plants } = await open(t, { without: "1", databaseDeadlineMs: 250 });
  assert.deepEqual(await createAll(plants, 1n, 2n), ["write_failed", "created"]);
});

test("a row of another batch is a repeat", TIMEOUT, async (t) => {
  const { plants } = await open(t, { create: () => "another" });
  assert.deepEqual(await createAll(plants, 1n), ["replayed"]);
});

test("a host of a lower timeline than was seen is not used", TIMEOUT, async (t) => {
  let isGone = false;
  let creates = 0;
  const hostOf = (timeline: number, isAway: () => boolean) => ({
    async query(text: string, values: readonly string[]) {
      if (isAway()) throw new Error("closed");
      const ids = idsOf(text, values);
      if (ids === undefined) return answer(text, { timeline });
      if (timeline === 1) creates++;
      return answerCreate(ids, values[4]);
    },
  });
  const { plants } = await openStore(t, {
    pg: fakeDriver({ 1: hostOf(1, () => !isGone), 2: hostOf(2, () => isGone) }),
    url: "postgresql://a@127.0.0.1:1,127.0.0.1:2/garden",
    databaseDeadlineMs: 1000,
  });
  await plants.create({ id: 1n, name: "Fern" });
  isGone = true; // the old host, which was replaced, is all that is left
  assert.deepEqual(await createAll(plants, 2n), ["write_failed"]);
  assert.equal(creates, 0);
});

test("a connection to a host that is replaced while it is made is not used", TIMEOUT, async (t) => {
  const { released, release } = makeLatch();
  let isOld = false;
  let late = 0;
  const old = {
    async connect() {
      if (isOld && ++late > 1) return NEVER;
      return isOld ? released : undefined;
    },
    async query(text: string, values: readonly string[]) {
      const ids = idsOf(text, values);
      if (ids === undefined) return isOld && late === 0 ? NEVER : answer(text);
      return isOld ? NEVER : answerCreate(ids, values[4]);
    },
  };
  const next = {
    async query(text: string, values: readonly string[]) {
      const ids = idsOf(text, values);
      if (ids !== undefined) return answerCreate(ids, values[4]);
      return answer(text, { isStandby: !isOld, timeline: 2 });
    },
  };
  const { plants, state } = await openStore(t, {
    pg: fakeDriver({ 1: old, 2: next }),
    url: "postgresql://a@127.0.0.1:1,127.0.0.1:2/garden",
  });
  isOld = true; // its reads work, and its commits wait for a standby that it has no more
  const created = createAll(plants, 2n);
  await until("a connection is being made", () => late > 0);
  await until("the other host is in use", () => state().host === "127.0.0.1:2");
  release();
  assert.deepEqual(await created, ["created"]);
  assert.deepEqual(await createAll(plants, 3n, 4n, 5n), ["created", "created", "created"]);
});
