/**
 * The token log: what was created and revoked, one event a line, and the set of tokens that follows.
 *
 * The order of the lines is the order of events; the clock decides expiry alone. An unknown member of
 * an event is ignored, an unknown event is damage. Knows no files: it turns lines into tokens and
 * events into lines.
 */
import { PlantStoreError } from "../core/errors.ts";
import { isTokenName, SCOPES } from "../core/services.ts";
import { isLive, isScopes, type TokenRecord } from "../core/token.ts";

/** @internal */
export type TokenEvent =
  | ({ readonly event: "created" } & Omit<TokenRecord, "revokedAt">)
  | { readonly event: "revoked"; readonly name: string; readonly revokedAt: number };

/** @internal */
export function encodeTokenEvent(event: TokenEvent): string {
  return JSON.stringify(event, (key, value) =>
    key.endsWith("At") ? new Date(value as number).toISOString() : value,
  );
}

/** @throws PlantStoreError `corruption` if the line is no event of this log. @internal */
export function decodeTokenEvent(line: Buffer): TokenEvent {
  const { event, name, hash, scopes, createdAt, expiresAt, revokedAt } = parseMembers(line);
  if (typeof name !== "string" || !isTokenName(name)) {
    throw damage("name: expected letters, digits and ._@-");
  }
  if (event === "revoked") return { event, name, revokedAt: parseTime("revokedAt", revokedAt) };
  if (event !== "created") throw damage('event: expected "created" or "revoked"');
  if (typeof hash !== "string" || !/^[0-9a-f]{64}$/.test(hash)) {
    throw damage("hash: expected 64 hexadecimal digits");
  }
  if (!isScopes(scopes)) throw damage(`scopes: expected an array of ${SCOPES.join(", ")}`);
  return {
    event,
    name,
    hash,
    scopes,
    createdAt: parseTime("createdAt", createdAt),
    ...(expiresAt !== undefined && { expiresAt: parseTime("expiresAt", expiresAt) }),
  };
}

/** The members of a JSON object; none if it is another value. */
function parseMembers(line: Buffer): Record<string, unknown> {
  try {
    return Object(JSON.parse(line.toString("utf8")));
  } catch {
    throw damage("expected JSON");
  }
}

function parseTime(member: string, value: unknown): number {
  const time = typeof value === "string" ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(time)) throw damage(`${member}: expected an ISO 8601 time`);
  return time;
}

function damage(fault: string): PlantStoreError {
  return new PlantStoreError("corruption", fault);
}

type Token = Omit<TokenRecord, "revokedAt"> & { revokedAt?: number };

/** Every token of the log, in the order of creation. @internal */
export class TokenSet {
  readonly tokens: Token[] = [];
  /** The tokens that were not revoked, by name: a log may hold many that were. */
  readonly #unrevoked = new Map<string, Token[]>();

  apply(event: TokenEvent): void {
    const { name } = event;
    const namesakes = this.#unrevoked.get(name) ?? [];
    if (event.event === "created") {
      const { event: _, ...token } = event;
      this.tokens.push(token);
      namesakes.push(token);
      this.#unrevoked.set(name, namesakes);
      return;
    }
    // A name may be used again after its token expired, so a revocation ends every token of the name.
    for (const token of namesakes) token.revokedAt = event.revokedAt;
    this.#unrevoked.delete(name);
  }

  live(now: number): TokenRecord[] {
    return [...this.#unrevoked.values()].flat().filter((token) => isLive(token, now));
  }
}
