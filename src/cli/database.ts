/**
 * The database that `--database` names, in place of a data directory: its options, its password and
 * its driver, which is loaded only if it is needed.
 */
import { statSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { PgModule, PostgresPlants, PostgresPlantsOptions } from "../postgres/index.ts";
import { UsageError } from "./command.ts";
import { switchOption, textOption } from "./options.ts";
import { report } from "./output.ts";

export const DATABASE_OPTIONS = {
  database: textOption(
    "URL",
    "keep plants and tokens in this PostgreSQL database instead of a data directory",
  ),
  databaseFile: {
    ...textOption("FILE", "read the URL of the database from this file"),
    expected: "the path of a file",
    isSecret: true,
    parse: (text: string) => (text === "" || text.includes("://") ? undefined : text),
  },
  databaseRequireSync: switchOption("refuse a database whose commits wait for no standby"),
};

export interface DatabaseChoice {
  readonly database?: string | undefined;
  readonly databaseFile?: string | undefined;
  readonly databaseRequireSync?: boolean | undefined;
}

type Details = Pick<
  PostgresPlantsOptions,
  "databaseDeadlineMs" | "databaseConnections" | "queueBytesMax"
>;

type Postgres = typeof import("../postgres/index.ts");

/** An open database, and the functions that work with it, which are imported only if needed. */
interface OpenDatabase {
  readonly plants: PostgresPlants;
  readonly postgres: Postgres;
}

/** Whether the options name a database. */
export function isDatabase(choice: DatabaseChoice): boolean {
  return choice.database !== undefined || choice.databaseFile !== undefined;
}

/**
 * @throws UsageError if the options do not go together, or the driver is not installed.
 * @throws PlantStoreError like `PostgresPlants.open`.
 */
export async function openDatabase(
  choice: DatabaseChoice,
  details: Details = {},
): Promise<OpenDatabase> {
  checkChoice(choice);
  const { database, databaseFile, databaseRequireSync: requireSync = false } = choice;
  const { url, password } =
    databaseFile === undefined
      ? { url: database, password: undefined }
      : await followUrl(databaseFile);
  if (!url) throw new UsageError("expected a database: name it with --database or --database-file");
  const postgres = await import("../postgres/index.ts");
  const options = { pg: await loadDriver(), url, password, requireSync, ...details };
  return { plants: await openPlants(postgres, options), postgres };
}

/** @throws UsageError if the file has no URL of a database, Error if it cannot be read. */
async function readUrl(
  file: string,
): Promise<{ readonly url: string; readonly password?: string }> {
  const shown = `--database-file "${file}"`;
  let text: string;
  try {
    text = (await readFile(file, "utf8")).trim();
  } catch (cause) {
    throw new Error(`Cannot read ${shown}: ${(cause as Error).message}`, { cause });
  }
  if (text === "") throw new UsageError(`${shown} is empty: expected a URL`);
  const { parseDatabaseUrl } = await import("../postgres/database-url.ts");
  try {
    const { password } = parseDatabaseUrl(text);
    return { url: text.replace(PASSWORD, "$1@"), ...(password && { password }) };
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    throw new UsageError(`${shown}: ${error.message}`);
  }
}

/** The password in the URL of a database. */
const PASSWORD = /^(postgres(?:ql)?:\/\/[^:@/?#]*):([^@/?#]*)@/;

/** The URL in a file, and its password, which may be replaced at any time. A pipe is read only once. */
async function followUrl(file: string) {
  const first = await readUrl(file);
  const stat = statSync(file);
  if (first.password && stat.isFile() && (stat.mode & 0o004) !== 0) {
    warn(`--database-file "${file}": every user may read its password; run: chmod o-r`);
  }
  let isWarned = false;
  const password = async () => {
    const now = stat.isFile() ? await readUrl(file) : first;
    if (!isWarned && now.url !== first.url) {
      isWarned = true;
      warn(`--database-file "${file}" has another URL: only its password is used before a restart`);
    }
    return now.password;
  };
  return { url: first.url, password };
}

function warn(message: string): void {
  report({ level: "warn", event: "warning", message });
}

async function openPlants(
  postgres: Postgres,
  options: Parameters<typeof PostgresPlants.open>[0],
): Promise<PostgresPlants> {
  try {
    return await postgres.PostgresPlants.open(options);
  } catch (error) {
    if (error instanceof RangeError) throw new UsageError(`--database: ${error.message}`);
    throw error;
  }
}

/** Does work with a database, and closes it. */
export async function withDatabase<T>(
  choice: DatabaseChoice,
  work: (database: OpenDatabase) => Promise<T>,
  details?: Details,
): Promise<T> {
  const database = await openDatabase(choice, details);
  try {
    return await work(database);
  } finally {
    await database.plants.close();
  }
}

/** @throws UsageError. A database that a variable names counts more than a folder that a variable names. */
function checkChoice({ database, databaseFile }: DatabaseChoice): void {
  if (process.argv.some((word) => /^--data(=|$)/.test(word))) {
    throw new UsageError("use either --data or a database, not both");
  }
  if (database === undefined) return;
  if (databaseFile !== undefined) {
    throw new UsageError("use either --database or --database-file, not both");
  }
  if (PASSWORD.test(database) && process.argv.some((word) => word.includes(database))) {
    throw new UsageError(
      "--database: expected no password in an argument, where every user of the machine reads it; " +
        "use PLANT_STORE_DATABASE or --database-file",
    );
  }
}

async function loadDriver(): Promise<PgModule> {
  try {
    delete process.env.NODE_PG_FORCE_NATIVE; // libpq hides notices
    // @ts-expect-error: it has no types, and may not be installed
    return (await import("pg")).default;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new UsageError("--database needs the driver of PostgreSQL: npm install pg");
  }
}
