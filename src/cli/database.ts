/**
 * The database that `--database` names, in place of a data directory: its options, its URL and its driver,
 * which is loaded only if it is needed.
 */
import { readFileSync } from "node:fs";
import type { PgModule, PostgresOptions, PostgresStore } from "../postgres/index.ts";
import { UsageError } from "./command.ts";
import { switchOption, textOption } from "./options.ts";

export const DATABASE_OPTIONS = {
  database: textOption(
    "URL",
    "keep plants and tokens in this PostgreSQL database instead of a data directory",
  ),
  databaseFile: {
    ...textOption("FILE", "read the URL of the database from this file, for each new connection"),
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

type Details = Omit<PostgresOptions, "pg" | "url" | "requireSync">;

/** Whether the options name a database. */
export function isDatabase(choice: DatabaseChoice): boolean {
  return choice.database !== undefined || choice.databaseFile !== undefined;
}

/**
 * @throws UsageError if the options do not go together, or the driver is not installed.
 * @throws PlantStoreError like `openPostgres`.
 */
export async function openDatabase(
  choice: DatabaseChoice,
  details: Details = {},
): Promise<PostgresStore> {
  checkChoice(choice);
  const { database, databaseFile: file, databaseRequireSync: requireSync } = choice;
  const url = file === undefined ? (database ?? "") : () => readUrl(file);
  const { openPostgres } = await import("../postgres/index.ts");
  const pg = await loadDriver();
  try {
    return await openPostgres({ pg, url, requireSync, ...details });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const named = file === undefined ? "--database" : `--database-file "${file}"`;
    throw new UsageError(`${named}: ${error.message}`);
  }
}

/** @throws Error, whose message names the file. */
function readUrl(file: string): string {
  const shown = `--database-file "${file}"`;
  let text: string;
  try {
    text = readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw new Error(`Cannot read ${shown}: ${(cause as Error).message}`, { cause });
  }
  if (text === "") throw new UsageError(`${shown} is empty: expected a URL`);
  return text;
}

/** Does work with a database, and closes it. */
export async function withDatabase<T>(
  choice: DatabaseChoice,
  work: (store: PostgresStore) => Promise<T>,
  details: Details = { followsTokens: false },
): Promise<T> {
  const store = await openDatabase(choice, details);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** The password in the URL of a database. */
const PASSWORD = /^postgres(?:ql)?:\/\/[^:@/?#]*:[^@/?#]*@/;

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
