/** Where plants and tokens are: in a data directory, or in the database that `--database` names. */
import fs from "node:fs";
import path from "node:path";
import { NUMBER_OPTIONS } from "../core/options.ts";
import {
  createToken,
  exportLines,
  importTokens,
  listTokens,
  PlantStore,
  revokeToken,
  TokenRegistry,
} from "../index.ts";
import { ioError } from "../log/disk.ts";
import {
  openPostgres,
  type PgModule,
  type PostgresOptions,
  type PostgresStore,
} from "../postgres/index.ts";
import { type OptionValues, UsageError } from "./command.ts";
import { DATA, flag, text } from "./options.ts";
import { printMessage, withProgress } from "./output.ts";

/** The options that name the store. */
export const STORE = {
  data: DATA,
  database: {
    ...text("URL", "keep everything in this PostgreSQL database instead"),
    isSecret: true,
  },
  databaseFile: {
    ...text("FILE", "read the URL of the database from this file, for each new connection"),
    expected: "the path of a file that holds the URL",
    isSecret: true,
    parse: (given: string) => (given === "" || given.includes("://") ? undefined : given),
  },
  databaseRequireSync: flag("refuse a database without a synchronous standby"),
};

export type StoreChoice = OptionValues<typeof STORE>;

type TokenTable = Pick<PostgresStore["tokenTable"], "create" | "revoke" | "list" | "import">;

/** An open store. `failed` resolves with the reason if it fails for good; `close` finishes the creates in flight. */
export type Store = Awaited<ReturnType<typeof openStore>>;

/** Whether the options name a database. */
export function isDatabase({ database, databaseFile }: StoreChoice): boolean {
  return database !== undefined || databaseFile !== undefined;
}

type DatabaseOptions = Omit<PostgresOptions, "pg" | "url" | "requireSync">;

/**
 * @param command the command that the lock of a data directory names.
 * @throws UsageError or PlantStoreError if the store cannot be opened.
 */
export async function openStore(choice: StoreChoice & DatabaseOptions, command: string) {
  if (!isDatabase(choice)) return openFolder(ownFolder(choice.data), command);
  const { databaseDeadlineMs = NUMBER_OPTIONS.databaseDeadlineMs.default, databaseConnections } =
    choice;
  const isPatient = command === "serve"; // a server waits for a database that is away
  const store = await openDatabase(choice, { databaseDeadlineMs, databaseConnections, isPatient });
  // Ready until a deadline: a failover must not take every server out of a load balancer.
  const isAway = () => store.state().leaseAgeMs >= databaseDeadlineMs;
  return {
    ...store,
    failed: new Promise<Error>(() => {}), // never: the store waits for a database that is away
    state: () => (isAway() ? "database-away" : "ready"),
    database: () => store.state(),
  };
}

async function openFolder(data: string, command: string) {
  const plants = await withProgress("reading the log", (onProgress) =>
    PlantStore.open(data, { command, onProgress }),
  );
  const tokens = await TokenRegistry.open(data); // if it throws, the process ends, as in a crash
  return {
    plants,
    tokens,
    tokenTable: folderTokens(data),
    failed: plants.failed,
    state: () => (tokens.isReadable ? "ready" : "tokens-unreadable"),
    database: () => undefined,
    async close() {
      tokens.close();
      await plants.close();
    },
  };
}

function folderTokens(data: string): TokenTable {
  return {
    create: (token) => createToken(data, token),
    revoke: (name) => revokeToken(data, name),
    list: () => listTokens(data),
    import: (records) => importTokens(data, records),
  };
}

/** Quotes in a JSON string are escaped, so these bytes occur only where a line begins. */
async function findLine(data: string, id: bigint): Promise<Buffer | undefined> {
  for await (const lines of exportLines(data)) {
    const start = lines.indexOf(`{"id":${id},`);
    if (start >= 0) return lines.subarray(start, lines.indexOf("\n", start));
  }
  return undefined;
}

/**
 * Runs `work` on the tokens and plants of a store, even while servers run.
 *
 * @param checkFolder throws if the command must not use this data directory.
 */
export async function withStored<T>(
  choice: StoreChoice,
  checkFolder: (data: string) => string,
  work: (tokens: TokenTable, plants: Pick<PlantStore, "getLine" | "listLines">) => Promise<T>,
): Promise<T> {
  if (!isDatabase(choice)) {
    const data = checkFolder(choice.data);
    const getLine = (id: bigint) => findLine(data, id);
    return work(folderTokens(data), { getLine, listLines: () => exportLines(data) });
  }
  const { tokenTable, plants, close } = await openDatabase(choice, { followsTokens: false });
  return work(tokenTable, plants).finally(close);
}

async function openDatabase(choice: StoreChoice, details: DatabaseOptions): Promise<PostgresStore> {
  const { database, databaseFile: file, databaseRequireSync: requireSync } = choice;
  const isTyped = (pattern: RegExp) => process.argv.some((word) => pattern.test(word));
  // A database wins over a folder that a variable names.
  if (isTyped(/^--data(=|$)/) || (database && file !== undefined)) {
    throw new UsageError(
      "expected one of --data, --database and --database-file, or of their variables, got two",
    );
  }
  if (isTyped(/^(--database=)?postgres(ql)?:\/\/[^:@/?#]*:[^@/?#]*@/)) {
    throw new UsageError(
      "--database: expected no password in an argument, which every user of the machine can read; " +
        "use PLANT_STORE_DATABASE or --database-file",
    );
  }
  const url = file === undefined ? (database ?? "") : () => readUrl(file);
  const pg = await loadDriver();
  try {
    return await openPostgres({ pg, url, requireSync, ...details });
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    const named = file === undefined ? "--database" : `--database-file "${file}"`;
    throw new UsageError(`${named}: ${error.message.replace("url: ", "")}`);
  }
}

/** @throws Error, whose message names the file. */
function readUrl(file: string): string {
  try {
    return fs.readFileSync(file, "utf8").trim();
  } catch (cause) {
    throw ioError(`Cannot read --database-file "${file}"`, cause);
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

/**
 * Returns a folder that a command may write to. It need not exist: then the nearest one above it counts, and a
 * message names it, because the name may be mistyped. Root writes into no folder of another user: its owner may
 * put a link to any file of the machine there (the class of CVE-2016-1247), and could not read what root writes.
 *
 * @throws UsageError if this is root and the folder belongs to another user.
 */
export function ownFolder(folder: string): string {
  let existing = path.resolve(folder);
  while (!fs.existsSync(existing)) existing = path.dirname(existing);
  const { uid, gid } = fs.statSync(existing);
  if (process.geteuid?.() === 0 && uid !== 0) {
    const name = findUserName(uid);
    const run = name
      ? `runuser -u ${name} --`
      : `setpriv --reuid ${uid} --regid ${gid} --clear-groups`;
    throw new UsageError(
      `"${existing}" belongs to the user ${name ?? uid}: run this command as that user and not as root, with ` +
        `${run} plant-store …, or docker run --user ${uid}:${gid} …`,
    );
  }
  if (!fs.existsSync(folder)) printMessage(`the folder "${path.resolve(folder)}" is new`);
  return folder;
}

/** As `/etc/passwd` has it; other users, such as those of LDAP, have only a number. */
function findUserName(uid: number): string | undefined {
  const users = fs.existsSync("/etc/passwd") ? fs.readFileSync("/etc/passwd", "utf8") : "";
  return new RegExp(`^([^:]+):[^:]*:${uid}:`, "m").exec(users)?.[1];
}

/** Returns the folder. @throws Error if it is missing: its name may be mistyped. */
export function existingFolder(folder: string): string {
  if (fs.existsSync(folder)) return folder;
  const advice = "there is no such folder; name the data directory with --data";
  throw new Error(`Cannot read "${path.resolve(folder)}": ${advice}`);
}
