/**
 * `npm run conformance -- --database URL [--engine citus]`: tries the promises of the database store
 * on an engine, and prints what holds. Creates the tables; refuses a database that has them already.
 */
import { parseArgs } from "node:util";
import { printSchema } from "../../src/postgres/index.ts";
import { PROMISES, Trial } from "./conformance.ts";
import { loadDriver } from "./stores.ts";

/** Ends the program with a message for the person who has started it. */
function fail(error: Error): never {
  console.error(error.message);
  process.exit(2);
}
process.once("uncaughtException", fail);

const { values } = parseArgs({
  options: { database: { type: "string" }, engine: { type: "string", default: "postgresql" } },
});
const { database: url, engine } = values;
if (url === undefined || (engine !== "postgresql" && engine !== "citus")) {
  console.error("usage: npm run conformance -- --database URL [--engine postgresql|citus]");
  process.exit(2);
}

const pg = await loadDriver();

/** In a session of its own: a promise is about sessions that the server ends. */
async function run(text: string): Promise<readonly unknown[]> {
  const session = new pg.Client({ connectionString: url });
  await session.connect();
  const { rows } = await session.query(text);
  await session.end();
  return rows;
}

const [about] = await run("SELECT version(), current_user AS role");
const { version, role } = about as { version: string; role: string };
console.log(`${version}\n`);
await run(printSchema(engine, role));
let failed = 0;
for (const [promise, check] of Object.entries(PROMISES)) {
  await run("DELETE FROM plant_store.plants; DELETE FROM plant_store.plant_tokens");
  const trial = new Trial(pg, url);
  try {
    await check(trial);
    console.log(`holds   ${promise}`);
  } catch (error) {
    failed++;
    const message = (error as Error).message.replaceAll("\n", "\n        ");
    console.log(`BROKEN  ${promise}\n        ${message}`);
  }
  await trial.close().catch(() => {});
}
await run("DROP SCHEMA plant_store CASCADE");
console.log(`\n${Object.keys(PROMISES).length - failed} hold, ${failed} do not`);
process.exit(failed === 0 ? 0 : 1);
