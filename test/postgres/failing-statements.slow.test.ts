/** Statements that fail in ways no real server can be brought to: one row, or one table, is at fault. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { PostgresPlants } from "../../src/postgres/index.ts";
import { collectWarnings, TIMEOUT } from "../support/watch.ts";
import { answerCreate, answerLook, fakeDriver, idsOf, NEVER, serverError } from "./fake-driver.ts";

/** The SQLSTATE of a row that breaks a rule of the table. */
const REFUSED = "23514";
/** One that says nothing of what became of the statement. */
const UNKNOWN = "XX000";
const HELD = "55P03";

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
async function open(t: TestContext, behaviour: Behaviour): Promise<PostgresPlants> {
  const {
    create = () => undefined,
    exact = {},
    without,
    connect = async () => {},
    databaseDeadlineMs,
  } = behaviour;
  const host = {
    connect,
    async query(text: string, values: readonly string[], notify: (notice: object) => void) {
      const ids = idsOf(text, values);
      if (ids !== undefined) {
        const number = values[4] ?? "";
        const rows = answerCreate(ids, create(ids, number, notify) ?? number, exact);
        return rows.filter((_, at) => ids[at] !== without);
      }
      return answerLook(false);
    },
  };
  const url = "postgresql://a@127.0.0.1:1/garden";
  const plants = await PostgresPlants.open({
    pg: fakeDriver({ 1: host }),
    url,
    databaseDeadlineMs,
  });
  t.after(() => plants.close());
  return plants;
}

/** Creates a plant, and sends it again at once until that succeeds or the store is closed. */
async function persist(plants: PostgresPlants, id: bigint): Promise<void> {
  for (let isOver = false; !isOver; ) {
    isOver = await plants.create({ id, name: "Fern" }).then(
      () => true,
      ({ code }) => code === "closed",
    );
  }
}

test("a row that is refused fails alone, at once, and is warned about", TIMEOUT, async (t) => {
  const warnings = collectWarnings(t);
  const create = (ids: readonly string[]) => {
    if (ids.includes("1")) throw serverError(REFUSED);
    return undefined;
  };
  const plants = await open(t, { create });
  const outcomes = await Promise.all(
    [1n, 2n, 3n, 4n].map((id) => plants.create({ id, name: "Fern" }).catch(({ code }) => code)),
  );
  assert.deepEqual(outcomes, ["write_failed", "created", "created", "created"]);
  assert.equal(warnings.filter(({ cause }) => String(cause).includes(REFUSED)).length, 1);
});

test(
  "a create whose row holds no readable record is a conflict, and is not sent again",
  TIMEOUT,
  async (t) => {
    const sent: string[] = [];
    const create = (ids: readonly string[]) => {
      sent.push(...ids);
      return undefined;
    };
    const plants = await open(t, { create, exact: { 1: "{broken" } });
    const outcomes = await Promise.all(
      [1n, 2n, 3n].map((id) => plants.create({ id, name: "Fern" }).catch(({ code }) => code)),
    );
    assert.deepEqual(outcomes, ["conflict", "created", "created"]);
    assert.deepEqual([sent, plants.status().queueBytes], [["1", "2", "3"], 0]);
  },
);

test("a row whose statement always fails for no known reason is soon alone", TIMEOUT, async (t) => {
  const create = (ids: readonly string[]) => {
    if (ids.includes("1")) throw serverError(UNKNOWN);
    return undefined;
  };
  const plants = await open(t, { create, databaseDeadlineMs: 300 });
  void persist(plants, 1n);
  await Promise.all(Array.from({ length: 9 }, (_, at) => persist(plants, BigInt(at + 2))));
});

test("a held row whose answer was lost is created, not repeated", TIMEOUT, async (t) => {
  let stored: string | undefined;
  const faults = [HELD, UNKNOWN];
  const create = (_ids: readonly string[], batch: string) => {
    const fault = faults.shift();
    if (fault !== HELD) stored ??= batch;
    if (fault !== undefined) throw serverError(fault);
    return stored;
  };
  const plants = await open(t, { create });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
});

test(
  "a create that waits for a connection is answered before the store is closed",
  TIMEOUT,
  async (t) => {
    let isSilent = false;
    const connect = () => (isSilent ? NEVER : Promise.resolve());
    const plants = await open(t, { connect, databaseDeadlineMs: 250 });
    isSilent = true;
    let isAnswered = false;
    const create = plants.create({ id: 1n, name: "Fern" }).finally(() => {
      isAnswered = true;
    });
    create.catch(() => {});
    await plants.close();
    assert.equal(isAnswered, true);
    await assert.rejects(create, { code: "write_failed" });
  },
);

test("a create that no connection takes is answered at its deadline", TIMEOUT, async (t) => {
  let isSilent = false;
  const connect = () => (isSilent ? NEVER : Promise.resolve());
  const plants = await open(t, { connect, databaseDeadlineMs: 250 });
  isSilent = true;
  await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "write_failed" });
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
    const plants = await open(t, { create });
    assert.equal(await plants.create({ id: 1n, name: "Fern" }), "created");
    assert.equal(batches.length, times);
  });
}

test("a plant whose row does not come back is not stored", TIMEOUT, async (t) => {
  const plants = await open(t, { without: "1", databaseDeadlineMs: 250 });
  const outcomes = await Promise.all(
    [1n, 2n].map((id) => plants.create({ id, name: "Fern" }).catch(({ code }) => code)),
  );
  assert.deepEqual(outcomes, ["write_failed", "created"]);
});

test("a row of another batch is a repeat", TIMEOUT, async (t) => {
  const plants = await open(t, { create: () => "another" });
  assert.equal(await plants.create({ id: 1n, name: "Fern" }), "replayed");
});
