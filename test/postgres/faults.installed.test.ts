import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { PlantServer } from "../../src/index.ts";
import { createToken, PostgresTokens } from "../../src/postgres/index.ts";
import { collectWarnings, HANG_MS, TIMEOUT, until } from "../support/watch.ts";
import type { Cluster } from "./cluster.ts";
import { collect } from "./conformance.ts";
import { FAULTS, tryFault } from "./faults.ts";
import { startFirewall } from "./firewall.ts";
import { compare, Load } from "./load.ts";
import {
  holdRows,
  loadDriver,
  NEEDS_POSTGRES,
  openPlants,
  SESSIONS_MAX,
  SharedCluster,
  startPair,
} from "./stores.ts";

const cluster = new SharedCluster();
/** The condition of sessions whose create waits for the standby. */
const CREATES_THAT_WAIT = "wait_event = 'SyncRep' AND query LIKE '%plants AS p%'";
const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
/** So long that a fault is over before the deadline, also on a busy machine. */
const PATIENT = { databaseDeadlineMs: HANG_MS };
const NOTHING = { lost: 0, changed: 0, wrong: 0 };

for (const [name, fault] of Object.entries(FAULTS)) {
  test(`nothing is lost when ${name}`, OPTIONS, async (t) => {
    const cost = await tryFault(t, fault, { clients: 24, ...PATIENT });
    const { lost, changed, wrong, failed } = cost;
    assert.deepEqual({ lost, changed, wrong }, NOTHING);
    if (fault.isUnnoticed === true) assert.equal(failed, 0, "no client saw an error");
  });
}

test("if the notice of a cancelled wait is ignored, plants are lost", OPTIONS, async (t) => {
  const { control, ...fault } =
    FAULTS["waits for the standby are cancelled, and the primary is killed"] ?? assert.fail();
  const { lost } = await tryFault(t, fault, { clients: 24, sabotage: control?.sabotage ?? {} });
  assert.ok(lost > 0);
});

test(
  "clients of two servers see no error while the primary is lost for seconds",
  OPTIONS,
  async (t) => {
    const { primary, standby, url } = await startPair(t);
    const operator = await openPlants(t, { url: primary.url("garden") });
    const token = await createToken(operator, { name: "app", scopes: ["write", "read"] });
    const start = async () => {
      const plants = await openPlants(t, { url, ...PATIENT });
      const tokens = await PostgresTokens.open(plants);
      const server = await PlantServer.start({ port: 0, plants, tokens });
      t.after(async () => {
        await server.close(0);
        tokens.close();
      });
      return server.url;
    };
    const urls = [await start(), await start()] as const;
    const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
    const seen = new Map<string, number>();
    let count = 0;
    let isStopped = false;
    const client = async () => {
      while (!isStopped) {
        const id = ++count;
        const [one, other] = id % 2 === 0 ? urls : [urls[1], urls[0]];
        const plant = JSON.stringify({ id, name: `plant ${id}` });
        const created = await fetch(`${one}/plants`, { method: "POST", headers, body: plant });
        const read = await fetch(`${other}/plants/${id}`, { headers });
        const isSame = (await read.text()) === plant;
        const key = `${created.status} ${read.status} ${isSame}`;
        seen.set(key, (seen.get(key) ?? 0) + 1);
      }
    };
    const clients = Array.from({ length: 16 }, client);
    const more = async () => {
      const wanted = count + 100;
      await until("100 more plants are created", () => count >= wanted);
    };
    await more();
    await primary.freeze();
    await sleep(2500); // longer than a verdict on a token is valid
    await standby.promote();
    await more();
    isStopped = true;
    await Promise.all(clients);
    assert.deepEqual([...seen.keys()], ["200 200 true"]);
  },
);

test(
  "while the standby is gone clients are answered at their deadline, and no backends pile up",
  OPTIONS,
  async (t) => {
    const { primary, standby, url } = await startPair(t);
    const plants = await openPlants(t, { url, databaseDeadlineMs: 4000 });
    const tokens = await PostgresTokens.open(plants);
    t.after(() => tokens.close());
    await plants.create({ id: 0n, name: "Fern" });
    await plants.get(0n);
    await standby.stop("kill");
    const load = new Load([plants], 50);
    let id = 0n;
    await until("every connection for creates waits", async () => {
      for (let more = 0; more < 8; more++) {
        plants.create({ id: --id, name: "Fern" }).catch(() => {}); // at its deadline
      }
      return (await primary.countSessions(CREATES_THAT_WAIT)) === 4;
    });
    await sleep(10_000); // the write of the lease is late, too
    // A look that takes long has its connection replaced, so one count alone may be higher.
    const counts: number[] = [];
    for (let times = 0; times < 5; times++) {
      await sleep(500);
      counts.push(await primary.countSessions());
    }
    assert.ok(Math.min(...counts) <= SESSIONS_MAX, `sessions: ${counts}`);
    await standby.start();
    await load.more(50);
    const report = await load.stop();
    assert.ok(report.failed >= 50, "every client was answered");
    assert.deepEqual(compare(report, await collect(plants.list())), NOTHING);
  },
);

test(
  "a create that joined one that fails at its deadline is answered by a later attempt",
  OPTIONS,
  async (t) => {
    const { cluster: server, plants } = await cluster.openStore(t, { databaseDeadlineMs: 12_000 });
    const release = async () => {
      await server.setStandbys();
      await server.sql("ALTER ROLE plant_store LOGIN");
    };
    t.after(release);
    await plants.create({ id: 1n, name: "Fern" });
    await server.sql("ALTER ROLE plant_store NOLOGIN");
    await server.setStandbys("missing");
    const plant = { id: 2n, name: "Moss" };
    const begun = performance.now();
    let isFirstOver = false;
    const first = assert.rejects(plants.create(plant), { code: "write_failed" });
    void first.finally(() => {
      isFirstOver = true;
    });
    await until("it waits for the standby", async () => {
      return (await server.countSessions(CREATES_THAT_WAIT)) > 0;
    });
    await server.endSessions();
    await until("several attempts have failed", () =>
      [...plants.state().retries.values()].some((count) => count > 5),
    );
    await sleep(begun + 9000 - performance.now()); // so the second has 9 s left when the first fails
    assert.equal(isFirstOver, false);
    const second = plants.create(plant);
    await first;
    await release();
    assert.equal(await second, "replayed");
  },
);

test("connections that a firewall has forgotten are replaced", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const { url, forget } = await startFirewall(t, server.url(database, { user: "plant_store" }));
  const operator = await openPlants(t, { url: server.url(database) });
  const token = await createToken(operator, { name: "app" });
  const plants = await openPlants(t, { url, databaseDeadlineMs: 2000 });
  const tokens = await PostgresTokens.open(plants);
  t.after(() => tokens.close());
  let id = 0n;
  const createMany = () =>
    Promise.all(Array.from({ length: 2000 }, () => plants.create({ id: ++id, name: "Fern" })));
  await plants.get(1n);
  // One for the looks, one for reads, one for the tokens, and two or more for creates.
  await until("several connections have created", async () => {
    await createMany();
    return plants.state().connections >= 5;
  });
  forget();
  for (const [what, work] of [
    ["creates", createMany],
    ["reads", () => plants.get(1n)],
    ["verdicts", async () => tokens.verify(token)],
  ] as const) {
    await until(`${what} succeed again`, () =>
      work().then(
        () => true,
        () => false,
      ),
    );
  }
});

test("a store alone replaces connections that a firewall has forgotten", OPTIONS, async (t) => {
  const { cluster: server, database } = await cluster.createStore();
  const { url, forget } = await startFirewall(t, server.url(database, { user: "plant_store" }));
  const plants = await openPlants(t, { url, databaseDeadlineMs: 2000 });
  await plants.create({ id: 1n, name: "Fern" });
  forget();
  await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "write_failed" });
  await until("creates succeed again", () =>
    plants.create({ id: 1n, name: "Fern" }).then(
      () => true,
      () => false,
    ),
  );
});

test("statements that wait for a locked table do not pile up", OPTIONS, async (t) => {
  const { cluster: server, database, url } = await cluster.createStore();
  await server.sql("ALTER ROLE plant_store RESET lock_timeout"); // else they would not wait
  t.after(() => server.sql("ALTER ROLE plant_store SET lock_timeout = '1s'"));
  const plants = await openPlants(t, { url, databaseDeadlineMs: 2000 });
  const tokens = await PostgresTokens.open(plants);
  t.after(() => tokens.close());
  const locked = server.sql("BEGIN; LOCK TABLE plants; SELECT pg_sleep(9)", database);
  const load = new Load([plants], 50);
  const counts: number[] = [];
  for (let second = 0; second < 8; second++) {
    const more = Array.from({ length: 8 }, (_, at) => BigInt(-1 - second * 8 - at));
    load.createToo(more).catch(() => {}); // another connection waits
    await sleep(1000);
    counts.push(await server.countSessions());
  }
  await locked;
  await load.more(50);
  const report = await load.stop();
  assertNoPile(counts);
  assert.ok(report.failed >= 50);
  assert.deepEqual(compare(report, await collect(plants.list())), NOTHING);
});

/** As above, one count alone may be higher. */
function assertNoPile(counts: readonly number[]): void {
  const isHigh = counts.map((count) => count > SESSIONS_MAX);
  const isPile = isHigh.some((high, at) => high && isHigh[at + 1]);
  assert.ok(!isPile && counts.length > 1, `sessions: ${counts}`);
}

/** What a test uses of a client of the driver. */
interface RawClient {
  connect(): Promise<void>;
  query(sql: string): Promise<unknown>;
  on(event: "error", listener: () => void): void;
  readonly connection: {
    readonly stream: Socket;
    parse(statement: object): void;
    bind(values: object): void;
    execute(portal: object): void;
  };
}

const UNFINISHED: Readonly<Record<string, (client: RawClient) => void>> = {
  "whose values have not come": ({ connection }) => {
    connection.parse({ name: "", text: "SELECT $1::int", types: [] });
  },
  "that has a transaction and was not ended": ({ connection }) => {
    connection.parse({ name: "", text: "SELECT txid_current()", types: [] });
    connection.bind({ values: [] });
    connection.execute({});
  },
  "whose result is not read": (client) => {
    client.connection.stream.pause();
    client.query("SELECT generate_series(1, 10000000)").catch(() => {}); // the test ends it
  },
};

for (const [what, send] of Object.entries(UNFINISHED)) {
  test(`a statement ${what} does not count as long`, OPTIONS, async (t) => {
    const { plants } = await sendUnfinished(t, send);
    assert.equal(plants.database.inspection?.hasLongStatement, false);
  });
}

test(
  "where Citus is installed, a session that waits for its client counts if it has a transaction",
  OPTIONS,
  async (t) => {
    const { server, database, plants } = await sendUnfinished(
      t,
      UNFINISHED["that has a transaction and was not ended"] ?? assert.fail(),
    );
    await server.sql(
      // A row alone: Citus itself is not there.
      `INSERT INTO pg_extension SELECT 99999, 'citus', 10, 11, false, '1' , NULL, NULL`,
      database,
    );
    await until("a look counts it", () => plants.database.inspection?.hasLongStatement === true);
  },
);

/** A store, and a client of its role that has sent a statement some seconds ago. */
async function sendUnfinished(t: TestContext, send: (client: RawClient) => void) {
  const { cluster: server, database, plants, url } = await cluster.openStore(t);
  const pg = await loadDriver();
  const client = new pg.Client({ connectionString: url }) as unknown as RawClient;
  client.on("error", () => {}); // the test ends it
  await client.connect();
  t.after(() => client.connection.stream.destroy());
  send(client);
  await until("a look could count it", async () => {
    const old = "query_start < now() - interval '3 seconds'";
    const is = `datname = '${database}' AND state = 'active' AND ${old}`;
    return (await server.countSessions(is)) > 0;
  });
  return { server, database, plants };
}

/** Counts the sessions while commits wait for a standby that is missing, and more creates come. */
async function countWaiting(
  t: TestContext,
  server: Cluster,
  options: { readonly url: string; readonly databaseDeadlineMs: number },
): Promise<number[]> {
  const plants = await openPlants(t, options);
  const tokens = await PostgresTokens.open(plants);
  t.after(() => tokens.close());
  const counts: number[] = [];
  try {
    await server.setStandbys("missing");
    for (let id = 0n; id < 640n; id++) {
      plants.create({ id, name: "Fern" }).catch(() => {}); // late
      if (id % 8n === 7n) await sleep(100);
      if (id % 80n === 79n) counts.push(await server.countSessions());
    }
  } finally {
    await server.setStandbys();
  }
  return counts;
}

test("sessions do not pile up with a deadline of 500 ms", OPTIONS, async (t) => {
  const { cluster: server, url } = await cluster.createStore();
  assertNoPile(await countWaiting(t, server, { url, databaseDeadlineMs: 500 }));
});

for (const [what, user, hide] of [
  ["its settings hide it", "plant_store", "ALTER ROLE plant_store SET track_activities = off"],
  [
    "its login acts as another role",
    "rotated",
    "CREATE ROLE rotated LOGIN IN ROLE plant_store; ALTER ROLE rotated SET role = plant_store",
  ],
] as const) {
  test(`sessions of a role that cannot see them do not pile up: ${what}`, OPTIONS, async (t) => {
    const { cluster: server, database } = await cluster.createStore();
    t.after(() => server.sql("ALTER ROLE plant_store RESET track_activities"));
    await server.sql(hide);
    const warnings = collectWarnings(t);
    const url = server.url(database, { user });
    assertNoPile(await countWaiting(t, server, { url, databaseDeadlineMs: 2000 }));
    assert.ok(warnings.some(({ message }) => /track_activities/.test(message)));
  });
}

test(
  "verdicts return with the standby, also if a firewall has forgotten the connections meanwhile",
  OPTIONS,
  async (t) => {
    const { cluster: server, database } = await cluster.createStore();
    const { url, forget } = await startFirewall(t, server.url(database, { user: "plant_store" }));
    const plants = await openPlants(t, { url, databaseDeadlineMs: 2000 });
    const tokens = await PostgresTokens.open(plants);
    t.after(() => tokens.close());
    t.after(() => server.setStandbys());
    await server.setStandbys("missing");
    await until(
      "commits wait",
      () => plants.database.inspection?.hasLongStatement === true && !tokens.isReadable,
    );
    forget();
    await server.setStandbys();
    await until("verdicts are given", () => tokens.isReadable);
  },
);

test("a row that cannot be decoded fails no other create", OPTIONS, async (t) => {
  const { cluster: server, database, plants } = await cluster.openStore(t);
  await server.sql("INSERT INTO plants VALUES (1, 'Fern', NULL, 'no JSON', 0)", database);
  const outcomes = await Promise.all(
    [1n, 2n].map((id) => plants.create({ id, name: "Fern" }).catch(({ code }) => code)),
  );
  assert.deepEqual(outcomes, ["conflict", "created"]);
});

test("a row that another transaction holds delays no other row", OPTIONS, async (t) => {
  const { cluster: server, database, plants } = await cluster.openStore(t);
  const holder = await holdRows(t, server.url(database), 20);
  const held = Promise.all(
    Array.from({ length: 20 }, (_, at) => plants.create({ id: BigInt(at + 1), name: "held" })),
  );
  const others = Array.from({ length: 256 }, (_, at) =>
    plants.create({ id: BigInt(at + 1000), name: "free" }),
  );
  assert.ok((await Promise.all(others)).every((outcome) => outcome === "created"));
  await holder.end("COMMIT");
  assert.ok((await held).every((outcome) => outcome === "replayed"));
});

test("a held row is answered 503 at the deadline", OPTIONS, async (t) => {
  const { cluster: server, database, url } = await cluster.createStore();
  const plants = await openPlants(t, { url, databaseDeadlineMs: 2500 });
  const holder = await holdRows(t, server.url(database), 1);
  await assert.rejects(plants.create({ id: 1n, name: "Fern" }), { code: "write_failed" });
  await holder.end("ROLLBACK");
  assert.ok(await plants.create({ id: 1n, name: "Fern" }), "it may be stored meanwhile");
});

test("plants that no client waits for any more leave the queue", OPTIONS, async (t) => {
  const { cluster: server, url } = await cluster.createStore();
  t.after(() => server.start());
  const queueBytesMax = 64 * 1024;
  const plants = await openPlants(t, { url, databaseDeadlineMs: 1000, queueBytesMax });
  await server.stop("immediate");
  await until("the server has noticed", () => plants.state().connections === 0);
  let id = 0n;
  /** Creates until one is refused because the queue is full. */
  const fill = async () => {
    const creates: Promise<string>[] = [];
    let isFull = false;
    while (!isFull) {
      const create = plants.create({ id: ++id, name: "x".repeat(1000) });
      creates.push(create.catch(({ code }) => code));
      isFull = (await Promise.race([creates.at(-1), turn()])) === "overloaded";
    }
    const codes = await Promise.all(creates);
    assert.deepEqual(new Set(codes.slice(0, -1)), new Set(["write_failed"]));
    return codes.length;
  };
  const count = await fill();
  assert.equal(plants.status().queueBytes, 0);
  assert.equal(await fill(), count, "as many find room again");
});

test("a row that a trigger leaves out is not answered as stored", OPTIONS, async (t) => {
  const { cluster: server, database, url } = await cluster.createStore();
  const plants = await openPlants(t, { url, databaseDeadlineMs: 1000 });
  await server.sql(
    `CREATE FUNCTION drop_some() RETURNS trigger LANGUAGE plpgsql AS
       $$ BEGIN IF NEW.id % 2 = 0 THEN RETURN NULL; END IF; RETURN NEW; END $$;
     CREATE TRIGGER drop_some BEFORE INSERT ON plants FOR EACH ROW EXECUTE FUNCTION drop_some()`,
    database,
  );
  const outcomes = await Promise.all(
    [1n, 2n, 3n].map((id) => plants.create({ id, name: "Fern" }).catch(({ code }) => code)),
  );
  assert.ok(outcomes[1] === "write_failed" || outcomes[1] === "store_failed", outcomes[1]);
  await until("the next look refuses the table", () =>
    plants.create({ id: 9n, name: "Fern" }).then(
      () => false,
      ({ code, cause }) => code === "store_failed" && /triggers/.test(cause.message),
    ),
  );
  await server.sql("DROP TRIGGER drop_some ON plants", database);
  await until("the store goes on", () =>
    plants.create({ id: 2n, name: "Fern" }).then(
      () => true,
      () => false,
    ),
  );
});
