/**
 * What is known of the tokens of a data directory, and the commands and requests that use them.
 *
 * Invariants. A token that was printed is in the file until a power cut and after it, and is accepted; once its
 * revocation was reported, it is refused by every request 2 s later. The file holds no token that nobody made.
 */
import { createHash } from "node:crypto";
import { createToken, listTokens, revokeToken } from "../../src/auth/token-file.ts";
import { PlantStoreError } from "../../src/core/errors.ts";
import { parseTokens } from "./image.ts";
import type { LifeRun } from "./life.ts";
import type { Step } from "./plan.ts";
import { DELAYS, FAILURES, Violation } from "./process.ts";

/** A change is in force within this time. */
const IN_FORCE_MS = 2000;
const UNKNOWN = "?";

interface TokenState {
  readonly name: string;
  readonly token: string;
  readonly createdMs: number;
  isRevokeSent?: boolean;
  revokedMs?: number | undefined;
}

export class Tokens {
  /** The tokens that were printed, by their hashes. */
  readonly states = new Map<string, TokenState>();
  /** The names of tokens that may have been made; each is used once. */
  readonly names = new Set<string>();
  /** Whether rot has changed the file: a name or a hash may be another one. */
  isRotten = false;

  /** Whether no state is older than in others. */
  includes(others: Tokens): boolean {
    return [...others.states].every(([hash, { revokedMs }]) => {
      const state = this.states.get(hash);
      return state !== undefined && (revokedMs === undefined || state.revokedMs !== undefined);
    });
  }

  /** Those of a copy of the file, which may be older than what is known. */
  copy(bytes: Buffer | undefined): Tokens {
    const copy = new Tokens();
    copy.isRotten = this.isRotten;
    for (const name of this.names) copy.names.add(name);
    const file = this.isRotten ? new Map() : parseTokens(bytes);
    for (const [hash, state] of this.states) {
      const found = file.get(hash);
      const revokedMs = found?.revokedAt === undefined ? undefined : state.revokedMs;
      if (found !== undefined) copy.states.set(hash, { ...state, revokedMs });
    }
    return copy;
  }

  judge(bytes: Buffer | undefined, what: string): void {
    if (this.isRotten) return;
    const file = parseTokens(bytes);
    for (const [hash, { name, isRevokeSent, revokedMs }] of this.states) {
      const found = file.get(hash);
      const isRevoked = found?.revokedAt !== undefined;
      const isRight = isRevoked ? isRevokeSent === true : revokedMs === undefined;
      if (found?.name === name && isRight) continue;
      const kind = found === undefined ? "token lost" : "token changed";
      throw new Violation(kind, `${what}: token "${name}" is ${JSON.stringify(found)}`);
    }
    const other = [...file.values()].find(({ name }) => !this.names.has(name));
    if (other === undefined) return;
    throw new Violation("token invented", `${what}: nobody has made a token "${other.name}"`);
  }
}

export function judgeTokens({ judge, folder }: LifeRun, what: string): void {
  const bytes = judge.bytesOf(folder.tokensPath);
  folder.tokens.judge(bytes, what);
  if (bytes !== undefined) judge.assertDurable(folder.tokensPath, bytes, what);
}

async function create(life: LifeRun): Promise<void> {
  const { tokens, path } = life.folder;
  const name = `name-${tokens.names.size}`;
  tokens.names.add(name);
  const token = await createToken(path, { name, scopes: ["write"] });
  if (life.isDead) return;
  const hash = createHash("sha256").update(token).digest("hex");
  tokens.states.set(hash, { token, name, createdMs: life.clock.monotonicMs() });
  judgeTokens(life, "a token was created");
}

async function revoke(life: LifeRun, { n }: Step): Promise<void> {
  const states = [...life.folder.tokens.states.values()];
  const state = states[n % states.length];
  if (state === undefined || state.isRevokeSent === true) return;
  state.isRevokeSent = true;
  await revokeToken(life.folder.path, state.name);
  if (life.isDead) return;
  state.revokedMs = life.clock.monotonicMs();
  judgeTokens(life, "a token was revoked");
}

async function list(life: LifeRun): Promise<void> {
  const { folder, judge } = life;
  const { states, isRotten } = folder.tokens;
  const known = [...states.keys()];
  const listed = await listTokens(folder.path);
  if (life.isDead || isRotten) return;
  const isMissing = (hash: string) => listed.every((token) => token.hash !== hash);
  if (known.some(isMissing)) throw new Violation("token list", "a list lacks a token");
  if (life.server !== undefined || listed.length === 0) return; // nobody changes them meanwhile
  const bytes = judge.bytesOf(folder.tokensPath) ?? Buffer.alloc(0);
  judge.assertDurable(folder.tokensPath, bytes, "tokens are listed");
}

async function ask(life: LifeRun): Promise<void> {
  const { server, clock, process } = life;
  const { tokens } = life.folder;
  const verify = async (token: string) => {
    try {
      return (await server?.registry.verify(token))?.name;
    } catch (error) {
      const isUnknown = error instanceof PlantStoreError && error.code === "tokens_unreadable";
      if (!isUnknown) throw error;
      return UNKNOWN;
    }
  };
  const stranger = await verify(`pst_${clock.randomBytes(32).toString("base64url")}`);
  if (!life.isDead && stranger !== undefined && stranger !== UNKNOWN) {
    throw new Violation("token accepted", "a token that never was is accepted");
  }
  for (const { token, name, createdMs, isRevokeSent, revokedMs } of tokens.states.values()) {
    const found = await verify(token);
    if (life.isDead) return;
    const isCalm = !process.hasMet(FAILURES) && !process.hasMet(DELAYS) && !tokens.isRotten;
    const isNew = clock.monotonicMs() - createdMs < IN_FORCE_MS;
    const isOver = clock.monotonicMs() - (revokedMs ?? Number.POSITIVE_INFINITY) >= IN_FORCE_MS;
    const mayBeRefused = found === undefined && (isRevokeSent === true || isNew);
    const isRefused = found === undefined || found === UNKNOWN;
    if (isRefused ? !isCalm || mayBeRefused : !isOver && (found === name || tokens.isRotten))
      continue;
    throw new Violation(isRefused ? "token refused" : "token accepted", `"${name}": ${found}`);
  }
}

export const TOKEN_ACTS = {
  "create token": create,
  "revoke token": revoke,
  "list tokens": list,
  ask,
};
