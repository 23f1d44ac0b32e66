/**
 * `plant-store token create|list|revoke|export|import`, and tokens as lines: what `list` shows, and what
 * `export` prints and `import` reads, strictly. Only `create` prints a token, once.
 */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { scanJson } from "../core/json.ts";
import { isTokenName, SCOPES, type Scope } from "../core/services.ts";
import {
  decodeTokenRecord,
  encodeTokens,
  formatTime,
  isLive,
  LOOK_INTERVAL_MS,
  parseMembers,
} from "../core/token.ts";
import {
  createToken,
  listTokens,
  PlantStoreError,
  revokeToken,
  type TokenRecord,
} from "../index.ts";
import { importTokens } from "../tools.ts";
import { defineCommand, type Setting, UsageError } from "./command.ts";
import { becomeOwner } from "./data-folder.ts";
import { DATABASE_OPTIONS, type DatabaseChoice, isDatabase, withDatabase } from "./database.ts";
import { DATA, EXPIRES, JSON_OUTPUT } from "./options.ts";
import { formatTable, printLines, printMessage, printMoreRefused, printRefused } from "./output.ts";

const tokenCreate = defineCommand({
  name: "token create",
  summary: "create a bearer token and print it, this once",
  arguments: ["NAME"],
  options: {
    data: DATA,
    ...DATABASE_OPTIONS,
    expires: EXPIRES,
    scope: {
      placeholder: SCOPES.join("|"),
      help: "what the token may do; may be given twice",
      defaultText: "write",
      isRepeatable: true,
      expected: SCOPES.join(" or "),
      parse: parseScopes,
    },
  },
  details: "A running server accepts the token once the command has ended.",
  async run([name = ""], options, settings) {
    if (!isTokenName(name)) {
      throw new UsageError(
        `token create: expected a NAME of 1 to 64 letters, digits and ._@-, got "${name}"`,
      );
    }
    const { data, expires, scope } = options;
    const newToken = { name, scopes: scope, expiresAt: expires };
    const isNew = !isDatabase(options) && !existsSync(data);
    const token = isDatabase(options)
      ? await withDatabase(options, settings, ({ plants, postgres }) =>
          postgres.createToken(plants, newToken),
        )
      : await createToken(data, newToken);
    await printLines([token]); // first, so that no signal leaves a live token that nobody has seen
    if (isNew) printNewFolder(data);
    await waitForLooks(options);
  },
});

function printNewFolder(data: string): void {
  const folder = path.resolve(data);
  printMessage(`made the folder "${folder}"; a server accepts the tokens if that is its --data`);
}

/** By then each running server has looked at its tokens. */
async function waitForLooks(options: DatabaseChoice): Promise<void> {
  await sleep(2 * LOOK_INTERVAL_MS[isDatabase(options) ? "database" : "folder"]);
}

function parseScopes(text: string): readonly Scope[] | undefined {
  const wanted = text.split(",");
  const isKnown = wanted.every((word) => SCOPES.some((scope) => scope === word));
  return isKnown ? SCOPES.filter((scope) => wanted.includes(scope)) : undefined;
}

const tokenList = defineCommand({
  name: "token list",
  summary: "show every token by name, with its scopes and state",
  options: { data: DATA, ...DATABASE_OPTIONS, json: JSON_OUTPUT },
  async run(_, options, settings) {
    const { json = false } = options;
    const now = Date.now();
    const rows = (await readTokens(options, settings)).map((token) => describeToken(token, now));
    const head = ["NAME", "SCOPES", "STATE", "CREATED", "EXPIRES"];
    const table = rows.map(({ name, scopes, state, created, expires }) => {
      return [name, scopes.join(","), state, created, expires ?? "never"];
    });
    await printLines(json ? rows.map((row) => JSON.stringify(row)) : formatTable([head, ...table]));
  },
});

async function readTokens(
  options: DatabaseChoice & { readonly data: string },
  settings: readonly Setting[],
): Promise<readonly TokenRecord[]> {
  return isDatabase(options)
    ? withDatabase(options, settings, ({ plants, postgres }) => postgres.listTokens(plants))
    : listTokens(requireFolder(options.data));
}

const tokenRevoke = defineCommand({
  name: "token revoke",
  summary: "revoke the live token of this name",
  arguments: ["NAME"],
  options: { data: DATA, ...DATABASE_OPTIONS },
  details: "A running server refuses the token within 2 seconds.",
  async run([name = ""], options, settings) {
    if (!isDatabase(options)) await revokeToken(requireFolder(options.data), name);
    else {
      await withDatabase(options, settings, ({ plants, postgres }) =>
        postgres.revokeToken(plants, name),
      );
    }
  },
});

const tokenExport = defineCommand({
  name: "token export",
  summary: "print every token as a line of JSON, with its hash, for token import",
  options: { data: DATA, ...DATABASE_OPTIONS },
  details: `Clients keep their tokens, because a server needs only the hashes. For example:
plant-store token export --data DIR > FILE && plant-store token import FILE --database URL`,
  async run(_, options, settings) {
    await printLines((await readTokens(options, settings)).map(encodeTokens));
  },
});

const tokenImport = defineCommand({
  name: "token import",
  summary: "import the tokens that token export has printed; - is standard input",
  arguments: ["FILE"],
  options: { data: DATA, ...DATABASE_OPTIONS },
  becomesOwner: true,
  details: `All tokens are imported, or none: the exit status is 3 if a line is refused, if another live
token has the name of a new one, or if one hash belongs to two different tokens. A token that
is revoked on either side is revoked afterwards. An import can be repeated. Running servers
accept the tokens once the command has ended, and refuse revoked ones within 2 seconds.`,
  async run([file = ""], options, settings) {
    const { data } = options;
    const records = await readTokenLines(file); // root reads it as root
    if (records === undefined) return 3;
    if (!isDatabase(options)) becomeOwner(data);
    const isNew = !isDatabase(options) && !existsSync(data);
    try {
      const changed = isDatabase(options)
        ? await withDatabase(options, settings, ({ plants, postgres }) =>
            postgres.importTokens(plants, records),
          )
        : await importTokens(data, records);
      await printLines([`imported ${changed}, already there ${records.length - changed}`]);
    } catch (error) {
      if (!(error instanceof PlantStoreError && error.code === "token_exists")) throw error;
      printMessage(`nothing was imported: ${error.message}`);
      return 3;
    }
    if (isNew) printNewFolder(data);
    await waitForLooks(options);
    return 0;
  },
});

/** @throws PlantStoreError `io_error` if the folder is missing: its name may be mistyped. */
function requireFolder(data: string): string {
  if (existsSync(data)) return data;
  throw new PlantStoreError(
    "io_error",
    `Cannot read "${path.resolve(data)}": there is no such folder; name the data directory with --data`,
  );
}

/** In the order of the help. */
export const commands = [tokenCreate, tokenList, tokenRevoke, tokenExport, tokenImport];

/** @param now milliseconds since 1970. */
function describeToken(token: TokenRecord, now: number) {
  const { name, scopes, createdAt, expiresAt, revokedAt } = token;
  const dead = revokedAt === undefined ? "expired" : "revoked";
  return {
    name,
    scopes,
    state: isLive(token, now) ? "live" : dead,
    created: formatTime(token, "createdAt", createdAt),
    expires: expiresAt === undefined ? null : formatTime(token, "expiresAt", expiresAt),
  };
}

/**
 * The tokens in a file, or in standard input if it is `-`.
 *
 * @returns `undefined` if a line is refused; the first of those were named.
 * @throws PlantStoreError `io_error`.
 */
async function readTokenLines(file: string): Promise<TokenRecord[] | undefined> {
  return parseTokens(file === "-" ? await text(process.stdin) : readTokenFile(file));
}

function readTokenFile(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    const why = code === "EISDIR" ? "it is a folder; token export prints its tokens" : message;
    throw new PlantStoreError("io_error", `Cannot read "${file}": ${why}`, { cause });
  }
}

function parseTokens(lines: string): TokenRecord[] | undefined {
  let refused = 0;
  const records = lines.split("\n").flatMap((line, at) => {
    try {
      return line.trim() === "" ? [] : [parseToken(line)];
    } catch (error) {
      printRefused(++refused, at + 1, (error as Error).message);
      return [];
    }
  });
  if (refused === 0) return records;
  printMoreRefused(refused);
  printMessage("nothing was imported: expected lines that token export has printed");
  return undefined;
}

/**
 * Refuses any member that `token export` does not print: it may be a misspelt expiry, or of a later release. So
 * is a time of another form, because without a zone it would depend on this machine.
 */
function parseToken(line: string): TokenRecord {
  const members = parseMembers(line);
  const record = decodeTokenRecord(members);
  let count = 0;
  scanJson(line, () => count++);
  const isOnce = count === Object.keys(members).length;
  if (isOnce && isDeepStrictEqual(members, JSON.parse(encodeTokens(record)))) return record;
  throw new Error("expected the members and the times that token export prints, each once");
}
