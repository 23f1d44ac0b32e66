/** `plant-store token list`: who may call, never with what. */
import { isLive, listTokens, type TokenRecord } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { DATA, JSON_OUTPUT } from "../options.ts";
import { printLines } from "../output.ts";

export const tokenList = defineCommand({
  name: "token list",
  summary: "show every token by name, with its scopes and state",
  arguments: [],
  options: { data: DATA, json: JSON_OUTPUT },
  async run(_, { data = "", json = false }) {
    const now = Date.now();
    const rows = (await listTokens(data)).map((token) => describe(token, now));
    await printLines(json ? rows.map((row) => JSON.stringify(row)) : formatTable(rows));
    return 0;
  },
});

interface Row {
  readonly name: string;
  readonly scopes: readonly string[];
  readonly state: "live" | "expired" | "revoked";
  readonly created: string;
  readonly expires: string | null;
}

function describe(token: TokenRecord, now: number): Row {
  const dead = token.revokedAt === undefined ? "expired" : "revoked";
  return {
    name: token.name,
    scopes: token.scopes,
    state: isLive(token, now) ? "live" : dead,
    created: formatTime(token.createdAt),
    expires: token.expiresAt === undefined ? null : formatTime(token.expiresAt),
  };
}

function formatTime(time: number): string {
  return new Date(time).toISOString();
}

function formatTable(rows: readonly Row[]): string[] {
  const cells = [
    ["NAME", "SCOPES", "STATE", "CREATED", "EXPIRES"],
    ...rows.map((row) => [
      row.name,
      row.scopes.join(","),
      row.state,
      row.created,
      row.expires ?? "never",
    ]),
  ];
  const widths = cells[0]?.map((_, at) => Math.max(...cells.map((line) => line[at]?.length ?? 0)));
  return cells.map((line) => {
    return line
      .map((cell, at) => cell.padEnd(widths?.[at] ?? 0))
      .join("  ")
      .trimEnd();
  });
}
