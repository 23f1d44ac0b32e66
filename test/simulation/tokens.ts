/**
 * What operators do with the tokens of a served folder, and what the server says of them.
 */
import { createHash } from "node:crypto";
import { PlantStoreError } from "../../src/core/errors.ts";
import type { VerifiedToken } from "../../src/core/services.ts";
import { createToken, listTokens, revokeToken } from "../../src/index.ts";
import { importTokens } from "../../src/tools.ts";
import type { Folder } from "./judge.ts";
import { type TokenState, Violation } from "./ledger.ts";
import type { Life } from "./life.ts";
import type { Server } from "./server.ts";
import type { Command } from "./work.ts";

/** How long a change may take until it is in force. */
const IN_FORCE_MS = 2000;

export function hashOf(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

export async function useTokens(server: Server, command: Command): Promise<void> {
  const { life, folder } = server;
  if (command.act === "list tokens") return list(life, folder);
  folder.tokenCommands++;
  try {
    if (command.act === "create token") return await create(server, command.name);
    if (command.act === "revoke token") return await revoke(server, command.name);
    if (command.act === "import tokens") return await importSome(life, folder, command.number);
  } finally {
    folder.tokenCommands--;
  }
}

/** What is reported is on the disk. @param last a text in the last line that counts, after another text. */
function judgeDurable(life: Life, folder: Folder, how: string, last: string, after = last): void {
  const { judge } = life;
  const { tokenPath } = folder;
  const names = judge.namesIn(folder.path);
  // Another command may be making one, if a sync has failed.
  const hasMark = names.includes("tokens.jsonl.checkpoint.unsynced");
  const isMade = hasMark || life.hasFaults;
  if (hasMark && !life.hasFaults && folder.tokenCommands === 1) {
    throw new Violation("leftover", `${how}, and the log of tokens is unsynced still`);
  }
  if (!hasMark) folder.mayHaveTokenMark = false;
  if (names.includes("tokens.jsonl.repaired") && !isMade) {
    throw new Violation("leftover", `${how}: it leaves "tokens.jsonl.repaired"`);
  }
  const bytes = judge.bytesOf(tokenPath) ?? Buffer.alloc(0);
  const at = bytes.indexOf(last, Math.max(0, bytes.lastIndexOf(after)));
  if (at < 0) {
    if (folder.hasLostTokens) return; // it has left the cache
    throw new Violation("token lost", `${how}: no line has ${last}`);
  }
  const end = bytes.indexOf("\n", at) + 1; // another change may follow
  judge.assertDurable(tokenPath, end > 0 ? bytes.subarray(0, end) : bytes, 0, how);
}

function mayBeLive({ revokedAtMs }: TokenState): boolean {
  return revokedAtMs === undefined;
}

async function create({ life, folder, revoking }: Server, name: string): Promise<void> {
  const { tokens, tokenChanges } = folder;
  tokens.attempt(name, 1);
  try {
    const token = await createToken(folder.path, { name });
    if (life.isDead) return;
    tokens.attempt(name, -1);
    tokens.create(token, hashOf(token), name, life.clock.steadyMs());
    // One that is being revoked may be this one.
    for (const state of tokens.named(name)) state.revokeSent ||= revoking.includes(name);
    if (tokenChanges !== folder.tokenChanges) life.judge.adoptTokens(folder);
    else judgeDurable(life, folder, "a token was created", hashOf(token));
  } catch (error) {
    if (life.isDead || !isCode(error, "token_exists")) throw error;
    tokens.attempt(name, -1);
    if (tokenChanges !== folder.tokenChanges) throw error;
    if (tokens.isUncertain || tokens.isAttempted(name)) throw error;
    if (tokens.named(name).some(mayBeLive)) throw error;
    throw new Violation("token exists", `no token has the name "${name}"`);
  }
}

async function revoke({ life, folder, revokes, revoking }: Server, name: string): Promise<void> {
  const { tokenChanges } = folder;
  const states = folder.tokens.named(name);
  const live = states.findLast((state) => !state.revokeSent && !state.isTaken);
  for (const state of states) state.revokeSent = true;
  const isFirst = !revokes.has(name);
  revokes.set(name, (revokes.get(name) ?? 0) + 1);
  revoking.push(name);
  try {
    // A token that is created meanwhile may be revoked, too.
    await revokeToken(folder.path, name).finally(() => {
      for (const state of folder.tokens.named(name)) state.revokeSent = true;
      revoking.splice(revoking.indexOf(name), 1);
    });
  } catch (error) {
    // Another command may have revoked it first.
    const isLost = live !== undefined && isFirst && revokes.get(name) === 1;
    if (life.isDead || !isCode(error, "token_unknown") || !isLost) throw error;
    if (tokenChanges !== folder.tokenChanges || folder.tokens.isUncertain) throw error;
    throw new Violation("token unknown", `a token has the name "${name}"`);
  }
  if (life.isDead) return;
  for (const state of states) state.revokedAtMs ??= life.clock.steadyMs();
  if (tokenChanges !== folder.tokenChanges) life.judge.adoptTokens(folder);
  else judgeDurable(life, folder, "a token was revoked", `"revoked","name":"${name}"`, live?.hash);
}

async function list(life: Life, folder: Folder): Promise<void> {
  const { tokenChanges } = folder;
  const { isUncertain } = folder.tokens;
  const known = [...folder.tokens.states.values()].map((state) => ({ ...state }));
  const before = life.judge.bytesOf(folder.tokenPath) ?? Buffer.alloc(0);
  const listed = await listTokens(folder.path);
  if (life.isDead || tokenChanges !== folder.tokenChanges) return;
  const now = life.judge.bytesOf(folder.tokenPath)?.subarray(0, before.length);
  const cannotTell = folder.hasLostTokens && life.hasFired("holds: the system cannot tell");
  if (before.length > 0 && now?.equals(before) === true && !cannotTell) {
    life.judge.assertDurable(folder.tokenPath, before, 0, "tokens are listed");
  }
  if (isUncertain || folder.tokens.isUncertain) return;
  for (const { hash, name, revokedAtMs, isTaken } of known) {
    if (isTaken) continue;
    const found = listed.find((token) => token.hash === hash);
    if (found !== undefined && (revokedAtMs === undefined || found.revokedAt !== undefined))
      continue;
    throw new Violation("token list", `a list has "${name}" as ${JSON.stringify(found)}`);
  }
}

/** One event with several tokens: a long line. */
async function importSome(life: Life, folder: Folder, number: number): Promise<void> {
  const random = life.world.random.fork(`import tokens ${number}`);
  const createdAt = life.clock.wallMs();
  const some = Array.from({ length: random.between(1, 6) }, (_, at) => {
    const token = `pst_${random.bytes(32).toString("base64url")}`;
    const name = `imported-${life.world.number}-${number}-${at}`;
    return { token, record: { name, hash: hashOf(token), scopes: ["read" as const], createdAt } };
  });
  const { tokenChanges, tokens } = folder;
  const records = some.map(({ record }) => record);
  for (const { name } of records) tokens.attempt(name, 1);
  const count = await importTokens(folder.path, records);
  if (life.isDead) return;
  for (const { name } of records) tokens.attempt(name, -1);
  if (count !== some.length) throw new Violation("token import", `${count} of ${some.length}`);
  for (const { token, record } of some) {
    tokens.create(token, record.hash, record.name, life.clock.steadyMs());
  }
  const last = some.at(-1)?.record.hash ?? "none";
  if (tokenChanges !== folder.tokenChanges) life.judge.adoptTokens(folder);
  else judgeDurable(life, folder, "tokens were imported", last);
}

/** No request waits so long for its token to be judged, whatever hangs. */
const LATE_MS = 60_000;

async function late(life: Life): Promise<never> {
  await life.rest(LATE_MS);
  throw new Violation("token late", "a request waits for a minute for its token to be judged");
}

/** Asks the server about every token, and about one that never was. */
export async function lookAtTokens(server: Server): Promise<void> {
  const { life, folder, registry } = server;
  const states = [...folder.tokens.states.values()];
  const ask = async (token: string): Promise<VerifiedToken | undefined | "unreadable"> => {
    try {
      return await Promise.race([registry.verify(token), late(life)]);
    } catch (error) {
      if (isCode(error, "tokens_unreadable")) return "unreadable";
      throw error;
    }
  };
  life.judge.settleTokens(folder);
  if (folder.tokens.isUncertain) return;
  const isCalm = !life.hasFaults && !life.isSlow && !server.hasEditedTokens && !life.isDisturbed;
  await Promise.all(
    states.map(async (state) => {
      const verdict = await ask(state.token);
      if (!life.isDead && !folder.tokens.isUncertain) judgeVerdict(life, state, verdict, isCalm);
    }),
  );
  const stranger = `pst_${life.world.random.fork("stranger").bytes(32).toString("base64url")}`;
  const verdict = await ask(stranger);
  if (life.isDead || verdict === undefined || verdict === "unreadable") return;
  throw new Violation("token", "a token that never existed is accepted");
}

function judgeVerdict(
  life: Life,
  { name, createdAtMs, revokeSent, revokedAtMs, isTaken }: TokenState,
  verdict: VerifiedToken | undefined | "unreadable",
  isCalm: boolean,
): void {
  const now = life.clock.steadyMs();
  if (verdict === "unreadable") {
    if (isCalm) throw new Violation("token unreadable", "tokens cannot be read without a fault");
    return;
  }
  if (verdict === undefined) {
    if (!isCalm || revokeSent || isTaken || now - createdAtMs < IN_FORCE_MS) return;
    throw new Violation("token refused", `token "${name}" is refused`);
  }
  if (verdict.name !== name)
    throw new Violation("token", `"${name}" is taken for "${verdict.name}"`);
  if (revokedAtMs === undefined || now - revokedAtMs < IN_FORCE_MS) return;
  const late = Math.round(now - revokedAtMs);
  throw new Violation("token accepted", `"${name}" is accepted ${late} ms after it was revoked`);
}

function isCode(error: unknown, code: string): boolean {
  return error instanceof PlantStoreError && error.code === code;
}
