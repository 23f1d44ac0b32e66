/**
 * What a data directory owes: the plants that must be in it, and those that may.
 *
 * Invariants. A plant that was acknowledged, or ever shown, must be there for ever, unless somebody other than
 * the program took it. A plant that was sent, and whose outcome is unknown, may be there. No other plant may.
 */
import type { Image, ImagePlant, TokenImage } from "./image.ts";

/** A promise that was broken. */
export class Violation extends Error {
  /** The same for the same promise, so that a shorter life can be compared. */
  readonly kind: string;

  constructor(kind: string, message: string) {
    super(message);
    this.kind = kind;
  }
}

/** Where in time a plant was sent first and acknowledged. */
interface Debt {
  readonly content: string;
  readonly sentAt: number;
  readonly owedAt: number;
}

export class PlantLedger {
  readonly #must = new Map<string, Debt>();
  /** By id, then by content: when it was sent first. */
  readonly #maybe = new Map<string, Map<string, number>>();
  /** The log, as it was last seen: its plants keep their order. */
  #order: readonly string[] = [];
  #moment = 0;

  get size(): number {
    return this.#must.size;
  }

  /** The ids that must be there. */
  get owed(): IterableIterator<string> {
    return this.#must.keys();
  }

  /** The contents that must be there, by id. */
  debts(): Map<string, string> {
    return new Map([...this.#must].map(([id, { content }]) => [id, content]));
  }

  /** The content that must be there. */
  contentOf(id: string): string | undefined {
    return this.#must.get(id)?.content;
  }

  /** The contents that may have been sent with this id. */
  sent(id: string): string[] {
    return [...(this.#maybe.get(id)?.keys() ?? [])];
  }

  /** A create was sent, or another program wrote the plant. */
  send(id: string, content: string): void {
    let contents = this.#maybe.get(id);
    if (contents === undefined) {
      contents = new Map();
      this.#maybe.set(id, contents);
    }
    if (!contents.has(content)) contents.set(content, ++this.#moment);
  }

  /** A create was acknowledged, or the plant was shown. @param how for the message. */
  owe(id: string, content: string, how: string): void {
    const debt = this.#must.get(id);
    if (debt?.content === content) return;
    if (debt !== undefined) {
      throw new Violation("changed", `${how}: id ${id} is ${content}, and was ${debt.content}`);
    }
    const sentAt = this.#maybe.get(id)?.get(content);
    if (sentAt === undefined) {
      throw new Violation("never sent", `${how}: nobody sent id ${id} as ${content}`);
    }
    this.#must.set(id, { content, sentAt, owedAt: ++this.#moment });
  }

  /** Others may have taken or changed this plant: nothing is owed. */
  forgive(id: string): void {
    const debt = this.#must.get(id);
    if (debt === undefined) return;
    this.#must.delete(id);
    this.#order = [];
    if (this.#maybe.get(id)?.has(debt.content) !== true) this.send(id, debt.content);
  }

  /** Others may have taken or changed any plant. */
  forgiveAll(): void {
    for (const id of [...this.#must.keys()]) this.forgive(id);
  }

  /** A copy: what another folder owes that got the same bytes. */
  copy(): PlantLedger {
    const copy = new PlantLedger();
    for (const [id, debt] of this.#must) copy.#must.set(id, debt);
    for (const [id, contents] of this.#maybe) copy.#maybe.set(id, new Map(contents));
    copy.#moment = this.#moment;
    return copy;
  }

  /**
   * Judges a log: every plant that must be there is, unchanged and once; no plant that may not be there is;
   * they are in their order.
   *
   * @param repeated the ids that others may have written twice.
   */
  judge(image: Image, how: string, repeated: ReadonlySet<string>): void {
    const seen = new Set<string>();
    let lastSent = 0;
    for (const { id, content, offset } of image.plants) {
      const where = `${how}, byte ${offset}: id ${id}`;
      if (seen.has(id)) {
        if (!repeated.has(id)) throw new Violation("twice", `${where} is there twice`);
        continue;
      }
      seen.add(id);
      const debt = this.#must.get(id);
      if (debt !== undefined && debt.content !== content) {
        throw new Violation("changed", `${where} is ${content}, and was ${debt.content}`);
      }
      const sentAt = debt?.sentAt ?? this.#maybe.get(id)?.get(content);
      if (sentAt === undefined) {
        throw new Violation("never sent", `${where} is ${content}, which nobody sent`);
      }
      if (debt !== undefined && debt.owedAt < lastSent) {
        throw new Violation(
          "order",
          `${where} was acknowledged before the one ahead of it was sent`,
        );
      }
      lastSent = Math.max(lastSent, sentAt);
    }
    for (const id of this.#must.keys()) {
      if (!seen.has(id)) throw new Violation("lost", `${how}: id ${id} is not there`);
    }
    this.#judgeOrder([...seen], how);
  }

  /** No plant is there that nobody sent. */
  judgeKnown({ plants }: Image, how: string): void {
    for (const { id, content } of plants) {
      if (this.#maybe.get(id)?.has(content) === true) continue;
      throw new Violation("never sent", `${how}: nobody sent id ${id} as ${content}`);
    }
  }

  #judgeOrder(ids: readonly string[], how: string): void {
    const places = new Map(ids.map((id, at) => [id, at]));
    let last = -1;
    for (const id of this.#order) {
      const place = places.get(id);
      if (place === undefined) continue;
      if (place < last) throw new Violation("order", `${how}: id ${id} has moved`);
      last = place;
    }
  }

  /** A start serves this log, so from now on all of it must be there. */
  adopt(image: Image, how: string, repeated: ReadonlySet<string>): void {
    this.judge(image, how, repeated);
    for (const { id, content } of image.plants) this.owe(id, content, how);
    this.#order = firstsOf(image.plants);
  }
}

function firstsOf(plants: readonly ImagePlant[]): string[] {
  return [...new Set(plants.map(({ id }) => id))];
}

interface TokenState {
  readonly token: string;
  readonly hash: string;
  readonly name: string;
  /** By the monotonic clock. */
  createdAtMs: number;
  /** When a revocation was sent first; its outcome may be unknown. */
  revokeSent: boolean;
  /** When its revocation was acknowledged, or others took its line. */
  revokedAtMs: number | undefined;
  /** Others took its line. */
  isTaken: boolean;
}

export type { TokenState };

/** The tokens that were created in a folder. Their secrets are known to the simulation alone. */
export class TokenLedger {
  readonly states = new Map<string, TokenState>();
  /** Others wrote to the token log, and what is seen of that may still leave the cache: nothing is owed. */
  isUncertain = false;
  /** By name, creates whose outcome is unknown: their tokens may exist, and nobody knows them. */
  readonly #attempts = new Map<string, number>();
  /** The hashes in lines that a cut may have mixed. */
  readonly #mixed = new Set<string>();

  /** A create begins, or its outcome is known. */
  attempt(name: string, change: 1 | -1): void {
    this.#attempts.set(name, (this.#attempts.get(name) ?? 0) + change);
  }

  isAttempted(name: string): boolean {
    return (this.#attempts.get(name) ?? 0) > 0;
  }

  create(token: string, hash: string, name: string, nowMs: number): void {
    if (this.states.has(token))
      throw new Violation("token", `a token was created twice: "${name}"`);
    const at = { createdAtMs: nowMs, revokeSent: false, revokedAtMs: undefined, isTaken: false };
    this.states.set(token, { token, hash, name, ...at });
  }

  /** The tokens that are revoked with this name. */
  named(name: string): TokenState[] {
    return [...this.states.values()].filter((state) => state.name === name);
  }

  /** Every token that was acknowledged is there, and is revoked if that was. */
  judgeOwed({ created, revoked }: TokenImage, how: string): void {
    for (const { hash, name, revokedAtMs, isTaken } of this.states.values()) {
      if (isTaken) continue;
      if (created.get(hash) !== name) {
        throw new Violation("token lost", `${how}: token "${name}" is not there`);
      }
      if (revokedAtMs !== undefined && !revoked.has(hash)) {
        throw new Violation("token lost", `${how}: the revocation of "${name}" is gone`);
      }
    }
  }

  /** No token is there that nobody created. */
  judgeKnown({ created }: TokenImage, how: string): void {
    const unknown = new Map(created);
    for (const { hash } of this.states.values()) unknown.delete(hash);
    for (const hash of this.#mixed) unknown.delete(hash);
    const left = new Map(this.#attempts);
    for (const name of unknown.values()) {
      const attempts = left.get(name) ?? 0;
      if (attempts === 0) throw new Violation("token", `${how}: nobody created "${name}"`);
      left.set(name, attempts - 1);
    }
  }

  /** A cut may have mixed what others wrote over each other: what nobody saw before may stay. */
  knowMixed(before: TokenImage, { created }: TokenImage): void {
    for (const hash of created.keys()) if (!before.created.has(hash)) this.#mixed.add(hash);
  }

  /**
   * Others changed the token log: from now on it owes what it has.
   *
   * @param hasLost a sync has failed, so lines may have left the cache: no stamp of the file tells a server.
   */
  adopt({ created, revoked }: TokenImage, nowMs: number, hasLost: boolean): void {
    // A revocation that was lost meanwhile counts from now on.
    const since = this.isUncertain ? nowMs : undefined;
    this.isUncertain = false;
    for (const state of this.states.values()) {
      const isRevoked = revoked.has(state.hash);
      state.isTaken = created.get(state.hash) !== state.name;
      if (!hasLost && (isRevoked || state.isTaken))
        state.revokedAtMs = since ?? state.revokedAtMs ?? nowMs;
      else state.revokedAtMs = undefined;
      state.revokeSent = isRevoked;
      state.createdAtMs = nowMs; // in force a little later
    }
  }

  /** Another server will know them from now on. */
  startAnew(nowMs: number): void {
    for (const state of this.states.values()) {
      state.createdAtMs = nowMs;
      if (state.revokedAtMs !== undefined) state.revokedAtMs = nowMs;
    }
  }

  copy(): TokenLedger {
    const copy = new TokenLedger();
    copy.isUncertain = this.isUncertain;
    for (const [token, state] of this.states) copy.states.set(token, { ...state });
    for (const [name, count] of this.#attempts) copy.#attempts.set(name, count);
    for (const hash of this.#mixed) copy.#mixed.add(hash);
    return copy;
  }
}
