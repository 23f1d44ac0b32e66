/**
 * The contract of tokens, row by row: what is done, and which tokens are there afterwards. Data, without an
 * assertion: test/auth/contract runs the rows on a folder, in memory, and on PostgreSQL.
 *
 * Under its sentence a row has its steps and, after "=", the tokens as "NAME SCOPES STATE", in the order of
 * creation. Each one that is live is accepted then, and each other one is refused. The steps:
 *   create NAME [SCOPES] [for an hour]   first NAME   revoke NAME   a day passes
 *   import STATE NAME                    import the same again
 * An import brings a token of another store. The word after "!" is the error that a step fails with.
 */
import type { NewToken } from "../../src/core/token.ts";

export interface TokenCase {
  readonly says: string;
  readonly steps: string;
  readonly lists: string;
}

function parse(text: string): TokenCase[] {
  const rows = [...text.matchAll(/^(\S.*)\n +(.*) =(.*)$/gm)];
  return rows.map(([, says = "", steps = "", lists = ""]) => ({
    says,
    steps,
    lists: lists.trim(),
  }));
}

/** On every backend. */
export const VERDICTS = parse(`
without tokens every token is refused
  a day passes =
a new token is accepted, with the scope write
  create app = app write live
a token has the scopes that it was made with
  create app read,write = app read,write live
tokens of different names are accepted side by side
  create app; create job read = app write live, job read live
a token is accepted before its expiry
  create app for an hour = app write live
a token that has expired is refused, and others are accepted
  create app for an hour; create job; a day passes = app write expired, job write live
`);

/** Where tokens change while a server runs. */
export const CHANGES = parse(`
a name belongs to one live token
  create app; create app !token_exists; create App = app write live, App write live
a revoked token is refused, and others are accepted
  create app; create job; revoke app = app write revoked, job write live
a token is revoked once
  create app; revoke app; revoke app !token_unknown = app write revoked
a token that is not there cannot be revoked
  create app; revoke job !token_unknown = app write live
the name of a revoked token is free, and the old one stays revoked
  create app; revoke app; create app = app write revoked, app write live
the name of an expired token is free, and the old one stays expired
  create app for an hour; a day passes; create app = app write expired, app write live
a token that has expired can be revoked
  create app for an hour; a day passes; revoke app = app write revoked
a revocation counts for all tokens of the name, expired and live
  create app for an hour; a day passes; create app; revoke app = app write revoked, app write revoked
a first token is made unless one is live
  first app; first job; revoke app; first app = app write revoked, app write live
tokens of another store have the state that they have there
  import live app; import revoked old = app write live, old write revoked
an import that is repeated changes nothing, and revives no token
  import live app; revoke app; import the same again = app write revoked
an import with the name of a live token is refused
  create app; import live app !token_exists = app write live
an import may have the name of a revoked token
  create app; revoke app; import live app = app write revoked, app write live
a revoked token may be imported beside a live one of its name
  create app; import revoked app = app write live, app write revoked
`);

/** Tokens that are refused with a RangeError. */
export const IMPOSSIBLE: readonly Partial<Record<keyof NewToken, unknown>>[] = [
  ...["", "two words", ".app", "ä", "a\n", "a".repeat(65)].map((name) => ({ name })),
  ...[["admin"], "write"].map((scopes) => ({ scopes })),
  ...[0, Number.NaN, 1e20].map((expiresAt) => ({ expiresAt })),
];

/** Damage to a file of a live token `a` and a revoked one `b`, and the line that is named. */
export const DAMAGE: readonly [says: string, edit: (lines: string) => string, line: number][] = [
  ["a text", (lines) => `${lines}damage\n`, 3],
  ["an event", () => '{"event":"revoked","name":"b"}\n', 1],
  ["two records in one line", (lines) => lines.replace("\n", ""), 1],
  ["half a record", (lines) => lines.slice(0, -20), 2],
  ["zeros", (lines) => lines.slice(0, -20) + "\0".repeat(20), 2],
  ["a member that is not known", (lines) => lines.replaceAll("revokedAt", "rewokedAt"), 2],
  ["a time in another form", (lines) => lines.replace("Z", "+00:00"), 1],
  ["a backup appended to it", (lines) => lines + lines.replace(/,"revoked[^}]*/, ""), 3],
];
