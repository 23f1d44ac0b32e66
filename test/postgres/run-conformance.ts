/**
 * `node --import tsx test/postgres/run-conformance.ts --database URL [--engine citus]`: tries every promise of the database store on an
 * engine, and prints which of them hold. It makes the tables (and on Citus the settings), and removes them at its
 * end, also after a failure or a signal. It refuses a database that has tables or settings of these names.
 *
 * A broken promise ends nothing: what it leaves (calls that fail later, sessions, locks) is bounded in
 * time, and the next promise begins with empty tables.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { printSchema } from "../../src/postgres/index.ts";
import { PROMISES, Trial } from "./conformance.ts";
import { type Driver, loadDriver } from "./stores.ts";

/** After so long a promise is broken. The longest takes about 10 s on an engine that keeps it. */
const PROMISE_MS = 60_000;
const STATEMENT_MS = 20_000;
const DUPLICATE_SCHEMA = "42P06";
const STATUS_OF_SIGNAL = { SIGHUP: 129, SIGINT: 130, SIGTERM: 143 } as const;

/** What exists already: the end of this program would remove it. */
const FOUND = "SELECT nspname AS name FROM pg_catalog.pg_namespace WHERE nspname = 'plant_store'";

/** What `print schema` sets on the nodes of Citus. The role of the tables is that of the servers here. */
const ROLE_SETTINGS = [
  "lock_timeout",
  "synchronous_commit",
  "citus.max_cached_conns_per_worker",
  "citus.enable_deadlock_prevention",
];
const NODE_SETTING = "citus.recover_2pc_interval";

/** Those of them that a node has already: their values would be lost. */
const FOUND_SETTINGS = `SELECT concat('the setting "', s.name, '" of its role or its node') AS name
FROM run_command_on_all_nodes($$SELECT pg_catalog.array_agg(f.name) FROM (
  SELECT split_part(unnest(s.setconfig), '=', 1) AS name FROM pg_catalog.pg_db_role_setting s
    JOIN pg_catalog.pg_roles r ON r.oid = s.setrole WHERE r.rolname = current_user AND s.setdatabase = 0
  UNION ALL SELECT name FROM pg_catalog.pg_file_settings) f
  WHERE f.name IN (${[...ROLE_SETTINGS, NODE_SETTING].map((name) => `'${name}'`).join()})$$) r,
  unnest(nullif(r.result, '')::text[]) s (name) WHERE r.success GROUP BY s.name ORDER BY s.name`;

class Conformance {
  readonly #pg: Driver;
  readonly #url: string;
  readonly #engine: "postgresql" | "citus";
  /** Rejects the trial under way. */
  #break: (error: Error) => void = () => {};
  #signal: keyof typeof STATUS_OF_SIGNAL | undefined;

  constructor(pg: Driver, url: string, engine: "postgresql" | "citus") {
    this.#pg = pg;
    this.#url = url;
    this.#engine = engine;
    // Calls of a broken promise may fail later; its verdict is printed already.
    process.on("unhandledRejection", () => {});
    process.on("uncaughtException", (error) => this.#break(error));
    for (const signal of Object.keys(STATUS_OF_SIGNAL)) {
      process.on(signal, () => {
        this.#signal ??= signal as keyof typeof STATUS_OF_SIGNAL;
        this.#break(new Error("interrupted"));
      });
    }
  }

  /** @returns the exit status. */
  async run(): Promise<number> {
    const [about] = await this.#query("SELECT version() AS version, current_user AS role");
    const { version = "", role = "" } = about ?? {};
    const found = [...(await this.#query(FOUND))];
    if (this.#engine === "citus") found.push(...(await this.#query(FOUND_SETTINGS)));
    if (found.length > 0) {
      const names = found.map(({ name }) => name).join(", ");
      throw new Error(`it removes what it makes, so it expects a cluster without ${names}`);
    }
    console.log(`${version}\n`);
    let failed = 0;
    let status: 0 | 1 = 0;
    let isOurs = true;
    try {
      await this.#query(printSchema(this.#engine, role)).catch((error) => {
        isOurs = error.code !== DUPLICATE_SCHEMA; // made by another since the look
        throw error;
      });
      for (const [promise, check] of Object.entries(PROMISES)) {
        if (this.#signal === undefined && !(await this.#holds(promise, check))) failed++;
      }
    } finally {
      if (isOurs) status = await this.#cleanUp(role);
    }
    if (this.#signal !== undefined) {
      console.log("\ninterrupted");
      return STATUS_OF_SIGNAL[this.#signal];
    }
    console.log(`\n${Object.keys(PROMISES).length - failed} hold, ${failed} do not`);
    return failed === 0 ? status : 1;
  }

  /** Tries a promise, and prints the verdict. */
  async #holds(promise: string, check: (trial: Trial) => Promise<void>): Promise<boolean> {
    const trial = new Trial(this.#pg, this.#url);
    const broken = new Promise<never>((_, reject) => {
      this.#break = reject;
    });
    const timer = setTimeout(
      () => this.#break(new Error(`it did not end within ${PROMISE_MS / 1000} s`)),
      PROMISE_MS,
    );
    try {
      await Promise.race([this.#empty(), broken]);
      await Promise.race([check(trial), broken]);
      console.log(`holds   ${promise}`);
      return true;
    } catch (error) {
      const { message } = error as Error;
      if (this.#signal === undefined) {
        console.log(`BROKEN  ${promise}\n        ${message.replaceAll("\n", "\n        ")}`);
      }
      return false;
    } finally {
      clearTimeout(timer);
      this.#break = () => {};
      await trial.close();
    }
  }

  /** Waits until no statement of an earlier promise writes any more. */
  async #empty(): Promise<void> {
    await this.#change("TRUNCATE plant_store.plants, plant_store.plant_tokens");
  }

  /** @returns the exit status. */
  async #cleanUp(role: string): Promise<0 | 1> {
    const resets =
      this.#engine === "postgresql"
        ? []
        : [
            ...ROLE_SETTINGS.map((name) => `ALTER ROLE "${role}" RESET ${name}`),
            `ALTER SYSTEM RESET ${NODE_SETTING}`,
            "SELECT pg_catalog.pg_reload_conf()",
          ];
    try {
      await this.#change("DROP SCHEMA IF EXISTS plant_store CASCADE");
      for (const sql of resets) {
        const run = `FROM run_command_on_all_nodes($$${sql}$$, false) WHERE NOT success`;
        const [fault] = await this.#query(
          `SELECT concat(result, ' for: ', $$${sql}$$) AS why ${run}`,
        );
        if (fault !== undefined) throw new Error(fault.why);
      }
      return 0;
    } catch (error) {
      const how = [
        "when nothing uses the tables, run: DROP SCHEMA plant_store CASCADE;",
        ...resets.map((sql) => `${sql};`),
      ].join(" ");
      console.error(`Cannot remove what it has made: ${(error as Error).message}; ${how}`);
      return 1;
    }
  }

  /** Runs a statement that waits for the locks of others, but not for ever. */
  #change(text: string): Promise<unknown> {
    return this.#query(
      `BEGIN; SET LOCAL lock_timeout = '${STATEMENT_MS / 2000}s'; ${text}; COMMIT`,
    );
  }

  /** Runs statements in a session of their own: a promise is about sessions that the server ends. */
  async #query(text: string): Promise<readonly Record<string, string>[]> {
    const limits = { connectionTimeoutMillis: STATEMENT_MS, query_timeout: STATEMENT_MS };
    const session = new this.#pg.Client({ connectionString: this.#url, ...limits });
    session.on("error", () => {});
    await session.connect();
    try {
      return (await session.query(text)).rows;
    } finally {
      await Promise.race([session.end(), sleep(1000, undefined, { ref: false })]);
    }
  }
}

const { values } = parseArgs({
  options: { database: { type: "string" }, engine: { type: "string", default: "postgresql" } },
});
const { database: url, engine } = values;
if (url === undefined || (engine !== "postgresql" && engine !== "citus")) {
  console.error(
    "usage: node --import tsx test/postgres/run-conformance.ts --database URL [--engine postgresql|citus]",
  );
  process.exit(2);
}
const conformance = new Conformance(await loadDriver(), url, engine);
const status = await conformance.run().catch((error: Error) => {
  console.error(error.message);
  return 2;
});
process.exit(status);
