/**
 * The promises of the database store besides the contract. Each begins with empty tables, and is tried by
 * the role that owns them.
 */
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import type { NewPlant } from "../../src/core/plant.ts";
import {
  createToken,
  listTokens,
  PostgresPlants,
  type PostgresPlantsOptions,
  PostgresTokens,
  revokeToken,
} from "../../src/postgres/index.ts";
import type { Driver } from "./stores.ts";

/** One trial of a promise, on a database with empty tables; closes what it opened. */
export class Trial {
  readonly pg: Driver;
  readonly url: string;
  readonly #open: { close(): unknown }[] = [];

  constructor(pg: Driver, url: string) {
    this.pg = pg;
    this.url = url;
  }

  async openPlants(options: Partial<PostgresPlantsOptions> = {}): Promise<PostgresPlants> {
    return this.#keep(await PostgresPlants.open({ pg: this.pg, url: this.url, ...options }));
  }

  async openTokens(plants: PostgresPlants): Promise<PostgresTokens> {
    return this.#keep(await PostgresTokens.open(plants));
  }

  /** A session of its own, for statements of any kind. */
  async openSession() {
    const session = new this.pg.Client({ connectionString: this.url });
    session.on("error", () => {});
    await session.connect();
    this.#keep({ close: () => session.end() });
    return session;
  }

  /** Closes what was opened, the newest first. */
  async close(): Promise<void> {
    for (const each of this.#open.reverse()) await each.close();
  }

  #keep<T extends { close(): unknown }>(opened: T): T {
    this.#open.push(opened);
    return opened;
  }
}

export async function collect<T>(list: AsyncIterable<T>): Promise<T[]> {
  const items: T[] = [];
  for await (const item of list) items.push(item);
  return items;
}

const ANY_STRING = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
  fc.constantFrom(
    "",
    "NULL",
    "null",
    '"',
    "\\",
    "\0",
    "\ud800",
    "\udfff\ud800",
    "{,}",
    "a\0b",
    " ",
  ),
);

function toText(text: string): string {
  return text.replaceAll("\0", "\uFFFD").toWellFormed();
}

export const PROMISES: Readonly<Record<string, (trial: Trial) => Promise<void>>> = {
  "every string comes back as it was, and differs from every other": async (trial) => {
    const plants = await trial.openPlants();
    const strings = fc.sample(ANY_STRING, 2000);
    const given = strings.map((name, at): NewPlant => {
      const tag = strings[(at * 7) % strings.length] ?? "";
      return at % 3 === 0 ? { id: BigInt(at), name } : { id: BigInt(at), name, tag };
    });
    await Promise.all(given.map((plant) => plants.create(plant)));
    assert.deepEqual(await collect(plants.list()), given);
    const outcomes = await Promise.all(given.map((plant) => plants.create(plant)));
    assert.ok(outcomes.every((outcome) => outcome === "replayed"));
    const changed = given.filter(({ name }) => name !== toText(name));
    assert.ok(changed.length > 50);
    for (const plant of changed) {
      const other = { ...plant, name: toText(plant.name) };
      await assert.rejects(plants.create(other), { code: "conflict" });
    }
  },

  "a row whose record has another spelling is repeated, and stays as it is": async (trial) => {
    const plants = await trial.openPlants();
    const session = await trial.openSession();
    const plant = { id: 7n, name: "\0\u007f\u202e\ufeff", tag: "\ud800\u009f" };
    const spelt = '{"id":7,"name":"\\u0000\\u007f\\u202e\\ufeff","tag":"\\ud800\\u009f"}';
    await session.query(
      `INSERT INTO plant_store.plants (id, name, tag, exact, batch) VALUES (7, '', '', '${spelt}', 0)`,
    );
    assert.equal(await plants.create(plant), "replayed");
    assert.deepEqual(await plants.get(7n), plant);
    await assert.rejects(plants.create({ ...plant, tag: "\ud800" }), { code: "conflict" });
    const { rows } = await session.query("SELECT exact FROM plant_store.plants");
    assert.deepEqual(rows, [{ exact: spelt }]);
  },

  "of two servers that create the same ids with other names, one wins each id": async (trial) => {
    const ours = await trial.openPlants();
    const theirs = await trial.openPlants();
    const ids = Array.from({ length: 3000 }, (_, at) => BigInt((at * 7919) % 3000));
    const race = (store: PostgresPlants, name: string) =>
      Promise.all(
        ids.map((id) =>
          store.create({ id, name }).catch(({ code }) => {
            assert.equal(code, "conflict");
            return "conflict";
          }),
        ),
      );
    const [won, lost] = await Promise.all([race(ours, "ours"), race(theirs, "theirs")]);
    const winners = new Map(ids.map((id, at) => [id, won[at] === "created" ? "ours" : "theirs"]));
    assert.ok(won.every((outcome, at) => (outcome === "created") !== (lost[at] === "created")));
    for (const { id, name } of await collect(ours.list())) assert.equal(name, winners.get(id));
  },

  "a list of many and of long plants is whole, in pages of bounded size": async (trial) => {
    const plants = await trial.openPlants();
    const many = Array.from({ length: 5000 }, (_, at) => ({ id: BigInt(at), name: `plant ${at}` }));
    const long = Array.from({ length: 12 }, (_, at) => {
      return { id: BigInt(10_000 + at), name: "x".repeat(300_000 + at) };
    });
    await Promise.all([...many, ...long].map((plant) => plants.create(plant)));
    assert.deepEqual(await collect(plants.list()), [...many, ...long]);
    assert.deepEqual(await collect(plants.list({ after: 4998n })), [...many.slice(-1), ...long]);
    const read = await Promise.all(many.slice(0, 500).map(({ id }) => plants.get(id)));
    assert.deepEqual(read, many.slice(0, 500));
  },

  "values stay exact whatever parsers the program has installed in the driver": async (trial) => {
    const { types } = trial.pg;
    const before = [20, 25].map((oid) => [oid, types.getTypeParser(oid)] as const);
    types.setTypeParser(20, Number);
    types.setTypeParser(25, () => "hostile");
    try {
      const plants = await trial.openPlants();
      const plant = { id: 9223372036854774993n, name: "Fern" };
      await plants.create(plant);
      assert.deepEqual(await plants.get(plant.id), plant);
    } finally {
      for (const [oid, parser] of before) types.setTypeParser(oid, parser);
    }
  },

  "a row that another transaction holds delays no other row": async (trial) => {
    const plants = await trial.openPlants();
    const holder = await trial.openSession();
    await holder.query("BEGIN");
    await holder.query("INSERT INTO plant_store.plants (id, name, batch) VALUES (1, 'held', 0)");
    const held = plants.create({ id: 1n, name: "held" }).catch(({ code }) => code);
    const begun = performance.now();
    const others = Array.from({ length: 100 }, (_, at) => BigInt(at + 2));
    await Promise.all(others.map((id) => plants.create({ id, name: "free" })));
    const tookMs = performance.now() - begun;
    assert.ok(tookMs < 3000, `${tookMs} ms`);
    await holder.query("COMMIT");
    assert.equal(await held, "replayed");
  },

  "the settings of a write do not outlive it": async (trial) => {
    const plants = await trial.openPlants({ databaseConnections: 1 });
    const names = ["synchronous_commit", "client_min_messages", "lock_timeout"];
    const shown = names.map((name) => `current_setting('${name}')`).join(", ");
    const look = () => plants.database.sideWrites.query(`SELECT ${shown}`);
    const before = await look();
    await plants.create({ id: 1n, name: "Fern" });
    const tokens = await trial.openTokens(plants); // writes on the same connection
    await tokens.refresh();
    assert.deepEqual(await look(), before);
  },

  "a connection that the server ends is replaced, and no call fails": async (trial) => {
    const plants = await trial.openPlants();
    const session = await trial.openSession();
    for (let round = 0; round < 5; round++) {
      const ids = Array.from({ length: 500 }, (_, at) => BigInt(round * 500 + at));
      const created = Promise.all(ids.map((id) => plants.create({ id, name: "Fern" })));
      await sleep(5 * round);
      await session.query(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
         WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()`,
      );
      assert.ok((await created).every((outcome) => outcome === "created"));
    }
    assert.equal((await collect(plants.list())).length, 2500);
  },

  "a revocation is obeyed by two servers within 2 s": async (trial) => {
    const operator = await trial.openPlants();
    const checks = [
      await trial.openTokens(operator),
      await trial.openTokens(await trial.openPlants()),
    ];
    const token = await createToken(operator, { name: "app" });
    for (const check of checks) await check.refresh();
    for (const check of checks) assert.ok(await check.verify(token));
    await revokeToken(operator, "app");
    await sleep(2000);
    for (const check of checks) assert.equal(await check.verify(token), undefined);
  },

  "of two operators who create one token at once, one succeeds": async (trial) => {
    const operators = [await trial.openPlants(), await trial.openPlants()];
    for (let round = 0; round < 10; round++) {
      const name = `app${round}`;
      const outcomes = await Promise.allSettled(
        operators.map((operator) => createToken(operator, { name })),
      );
      const failed = outcomes.filter((outcome) => outcome.status === "rejected");
      assert.deepEqual(
        failed.map(({ reason }) => reason.code),
        ["token_exists"],
      );
    }
    const [operator] = operators as [PostgresPlants, PostgresPlants];
    assert.equal((await listTokens(operator)).length, 10);
  },

  "a closed store takes no more, and answers what it had accepted": async (trial) => {
    const plants = await trial.openPlants();
    const created = Promise.all(
      Array.from({ length: 2000 }, (_, at) => plants.create({ id: BigInt(at), name: "Fern" })),
    );
    const closed = plants.close();
    await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "closed" });
    assert.ok((await created).every((outcome) => outcome === "created"));
    await closed;
    assert.equal((await collect((await trial.openPlants()).list())).length, 2000);
  },
};
