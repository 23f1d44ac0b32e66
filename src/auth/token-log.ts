/**
 * The token log: what was created and revoked, one event a line, and the set of tokens that follows.
 *
 * The order of the lines is the order of events; the clock decides expiry alone. An unknown member of
 * an event is ignored, an unknown event is damage. Knows no files: it turns lines into tokens and
 * events into lines.
 */
import { PlantStoreError } from "../core/errors.ts";
import { isTokenName, SCOPES, type Scope } from "../core/services.ts";

/** A token as the log knows it: never the token itself. */
export interface TokenRecord {
  /** Unique among the tokens that are live; what revocation and logs name. */
  readonly name: string;
  /** SHA-256 of the token, in hexadecimal. */
  readonly hash: string;
  readonly scopes: readonly Scope[];
  /** Milliseconds since 1970, UTC. */
  readonly createdAt: number;
  /** The first moment at which the token is no longer good; absent: it never expires. */
  readonly expiresAt?: number;
  readonly revokedAt?: number;
}

/** @internal */
export type TokenEvent =
  | ({ readonly event: "created" } & Omit<TokenRecord, "revokedAt">)
  | { readonly event: "revoked"; readonly name: string; readonly revokedAt: number };

/** Whether the token is good at a time. */
export function isLive(token: TokenRecord, now: number): boolean {
  if (token.revokedAt !== undefined) return false;
  return token.expiresAt === undefined || now < token.expiresAt;
}

/** @internal */
export function encodeTokenEvent(event: TokenEvent): string {
  return JSON.stringify(event, (key, value) =>
    key.endsWith("At") ? new Date(value as number).toISOString() : value,
  );
}

/** @throws PlantStoreError `corruption` when the line is no event of this log. @internal */
export function decodeTokenEvent(line: Buffer): TokenEvent {
  let event: unknown;
  try {
    event = JSON.parse(line.toString("utf8"));
  } catch {
    throw damage("expected JSON");
  }
  if (!isObject(event)) throw damage("expected a JSON object");
  const name = requireString(event, "name");
  if (!isTokenName(name)) throw damage("name: expected letters, digits and ._@-");
  switch (event.event) {
    case "created":
      return {
        event: "created",
        name,
        hash: requireHash(event),
        scopes: requireScopes(event),
        createdAt: requireTime(event, "createdAt"),
        ...(event.expiresAt === undefined ? {} : { expiresAt: requireTime(event, "expiresAt") }),
      };
    case "revoked":
      return { event: "revoked", name, revokedAt: requireTime(event, "revokedAt") };
    default:
      throw damage('event: expected "created" or "revoked"');
  }
}

/** Every token of the log, by order of creation. @internal */
export class TokenSet {
  readonly #tokens: TokenRecord[] = [];
  /** Where the tokens of a name are that were not revoked: a log may hold many that were. */
  readonly #unrevoked = new Map<string, number[]>();

  get tokens(): readonly TokenRecord[] {
    return this.#tokens;
  }

  apply(event: TokenEvent): void {
    if (event.event === "created") {
      const { event: _, ...token } = event;
      const at = this.#tokens.push(token) - 1;
      const others = this.#unrevoked.get(token.name);
      if (others === undefined) this.#unrevoked.set(token.name, [at]);
      else others.push(at);
      return;
    }
    // A name may be used again once its token is dead, so a revocation means every bearer of it.
    for (const at of this.#unrevoked.get(event.name) ?? []) {
      this.#tokens[at] = { ...this.#at(at), revokedAt: event.revokedAt };
    }
    this.#unrevoked.delete(event.name);
  }

  /** The tokens that were not revoked; some may have expired. */
  *unrevoked(): Iterable<TokenRecord> {
    for (const places of this.#unrevoked.values()) for (const at of places) yield this.#at(at);
  }

  /** The live token of this name, or `undefined`. */
  findLive(name: string, now: number): TokenRecord | undefined {
    const tokens = (this.#unrevoked.get(name) ?? []).map((at) => this.#at(at));
    return tokens.find((token) => isLive(token, now));
  }

  #at(at: number): TokenRecord {
    return this.#tokens[at] as TokenRecord;
  }
}

type JsonObject = Record<string, unknown>;

function isObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function requireString(event: JsonObject, member: string): string {
  const value = event[member];
  if (typeof value !== "string") throw damage(`${member}: expected a string`);
  return value;
}

function requireHash(event: JsonObject): string {
  const hash = requireString(event, "hash");
  if (!/^[0-9a-f]{64}$/.test(hash)) throw damage("hash: expected 64 hexadecimal digits");
  return hash;
}

function requireScopes(event: JsonObject): Scope[] {
  const { scopes } = event;
  if (!Array.isArray(scopes) || !scopes.every((scope) => SCOPES.includes(scope))) {
    throw damage(`scopes: expected an array of ${SCOPES.join(", ")}`);
  }
  return scopes;
}

function requireTime(event: JsonObject, member: string): number {
  const time = Date.parse(requireString(event, member));
  if (Number.isNaN(time)) throw damage(`${member}: expected an ISO 8601 time`);
  return time;
}

function damage(fault: string): PlantStoreError {
  return new PlantStoreError("corruption", fault);
}
