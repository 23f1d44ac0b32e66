/** `plant-store token create|list|revoke|import`. Only `create` prints a token, once. */
import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseTokenFile } from "../auth/token-file.ts";
import { POLL_INTERVAL_MS } from "../core/live-tokens.ts";
import type { Scope } from "../core/services.ts";
import { findMistake, isLive, isScope, SCOPES, type TokenRecord } from "../core/token.ts";
import { withIoError } from "../log/disk.ts";
import { defineCommand, UsageError } from "./command.ts";
import { EXPIRES, flag } from "./options.ts";
import { formatTable, printLines } from "./output.ts";
import { existingFolder, ownFolder, STORE, withStored } from "./store.ts";

const tokenCreate = defineCommand({
  name: "token create",
  summary: "create a token, and print it once",
  arguments: ["NAME"],
  options: {
    ...STORE,
    expires: EXPIRES,
    scope: {
      placeholder: SCOPES.join("|"),
      help: "what it may do; repeatable",
      defaultText: "write",
      isRepeatable: true,
      expected: SCOPES.join(" or "),
      parse: parseScopes,
    },
  },
  details: "A running server accepts the token once the command has ended.",
  async run([name = ""], options) {
    const mistake = findMistake({ name, scopes: SCOPES });
    if (mistake !== undefined) throw new UsageError(`token create: ${mistake}, got "${name}"`);
    const { expires: expiresAt, scope: scopes } = options;
    const newToken = { name, scopes, expiresAt };
    const token = await withStored(options, ownFolder, (tokens) => tokens.create(newToken));
    await printLines([token]); // first, so that no signal leaves a live token that nobody has seen
    await sleep(WAIT_MS);
  },
});

/** By then each running server has polled its tokens, unless its disk or its database is slow. */
const WAIT_MS = POLL_INTERVAL_MS + 100;

function parseScopes(text: string): readonly Scope[] | undefined {
  const words = text.split(",");
  return words.every(isScope) ? [...new Set(words)] : undefined;
}

const tokenList = defineCommand({
  name: "token list",
  summary: "show every token with its scopes and state",
  options: { ...STORE, json: flag("print JSON") },
  async run(_, options) {
    const { json = false } = options;
    const records = await withStored(options, existingFolder, (tokens) => tokens.list());
    const rows = records.map(describeToken);
    const head = ["NAME", "SCOPES", "STATE", "CREATED", "EXPIRES"];
    const table = rows.map((row) => Object.values(row).map((value) => `${value ?? "never"}`));
    await printLines(json ? rows.map((row) => JSON.stringify(row)) : formatTable([head, ...table]));
  },
});

const tokenRevoke = defineCommand({
  name: "token revoke",
  summary: "revoke the token of this name, live or expired",
  arguments: ["NAME"],
  options: STORE,
  details: "A running server refuses the token within 2 seconds.",
  async run([name = ""], options) {
    const ownExisting = (data: string) => ownFolder(existingFolder(data));
    await withStored(options, ownExisting, (tokens) => tokens.revoke(name));
  },
});

const tokenImport = defineCommand({
  name: "token import",
  summary: "import a tokens.jsonl of another data directory",
  arguments: ["FILE"],
  options: STORE,
  details: `Clients keep their tokens, because a server needs only the hashes. If a live token has the name of
a new one, none is imported. For example: plant-store token import data/tokens.jsonl --database URL`,
  async run([file = ""], options) {
    const bytes = await withIoError(`Cannot read "${file}"`, () => fs.promises.readFile(file));
    const records = parseTokenFile(file, bytes);
    const added = await withStored(options, ownFolder, (tokens) => tokens.import(records));
    await printLines([`imported ${added}, already there ${records.length - added}`]);
    await sleep(WAIT_MS);
  },
});

/** In the order of the help. */
export const commands = [tokenCreate, tokenList, tokenRevoke, tokenImport];

function describeToken(token: TokenRecord) {
  const { name, scopes, createdAt, expiresAt, revokedAt } = token;
  const dead = revokedAt === undefined ? "expired" : "revoked";
  return {
    name,
    scopes,
    state: isLive(token, Date.now()) ? "live" : dead,
    created: new Date(createdAt).toISOString(),
    expires: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
  };
}
