/** `plant-store token create|list|revoke`. A token itself is printed once. */
import { isTokenName, SCOPES, type Scope } from "../core/services.ts";
import { createToken, isLive, listTokens, revokeToken, type TokenRecord } from "../index.ts";
import { defineCommand, UsageError } from "./command.ts";
import { DATA, EXPIRES, JSON_OUTPUT } from "./options.ts";
import { formatTable, printLines } from "./output.ts";

export const tokenCreate = defineCommand({
  name: "token create",
  summary: "create a bearer token and print it, this once",
  arguments: ["NAME"],
  options: {
    data: DATA,
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
  details: "A running server accepts the token within 2 seconds.",
  async run([name = ""], { data, expires, scope }) {
    if (!isTokenName(name)) {
      throw new UsageError(
        `token create: expected a NAME of 1 to 64 letters, digits and ._@-, got "${name}"`,
      );
    }
    await printLines([await createToken(data, { name, scopes: scope, expiresAt: expires })]);
  },
});

function parseScopes(text: string): readonly Scope[] | undefined {
  const wanted = text.split(",");
  const isKnown = wanted.every((word) => SCOPES.some((scope) => scope === word));
  return isKnown ? SCOPES.filter((scope) => wanted.includes(scope)) : undefined;
}

export const tokenList = defineCommand({
  name: "token list",
  summary: "show every token by name, with its scopes and state",
  options: { data: DATA, json: JSON_OUTPUT },
  async run(_, { data, json = false }) {
    const now = Date.now();
    const rows = (await listTokens(data)).map((token) => describe(token, now));
    const head = ["NAME", "SCOPES", "STATE", "CREATED", "EXPIRES"];
    const table = rows.map(({ name, scopes, state, created, expires }) => {
      return [name, scopes.join(","), state, created, expires ?? "never"];
    });
    await printLines(json ? rows.map((row) => JSON.stringify(row)) : formatTable([head, ...table]));
  },
});

function describe(token: TokenRecord, now: number) {
  const { name, scopes, createdAt, expiresAt, revokedAt } = token;
  const dead = revokedAt === undefined ? "expired" : "revoked";
  return {
    name,
    scopes,
    state: isLive(token, now) ? "live" : dead,
    created: new Date(createdAt).toISOString(),
    expires: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
  };
}

export const tokenRevoke = defineCommand({
  name: "token revoke",
  summary: "revoke the live token of this name",
  arguments: ["NAME"],
  options: { data: DATA },
  details: "A running server refuses the token within 2 seconds.",
  async run([name = ""], { data }) {
    await revokeToken(data, name);
  },
});
