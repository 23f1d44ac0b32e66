/** A driver for faults that no real server can be brought to: the hosts are fakes, the rest is the store itself. */
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { SESSION } from "../../src/postgres/connection.ts";
import type { PgModule } from "../../src/postgres/index.ts";
import { CHECK, CHECK_SERVER, CREATE, PROBE } from "../../src/postgres/schema.ts";

type Notify = (notice: object) => void;

export interface Host {
  connect?(): Promise<unknown>;
  /** The rows of a statement; `notify` is what the server says while it runs. */
  query(text: string, values: readonly string[], notify: Notify): unknown[] | Promise<unknown[]>;
}

/** A driver for hosts by their ports. */
export function fakeDriver(hosts: Readonly<Record<number, Host>>): PgModule {
  class Client {
    readonly connection: { readonly stream: Socket };
    readonly #host: Host;
    #notify: Notify = () => {};
    /** Rejects when the store gives the connection up. */
    readonly #lost: Promise<never>;

    constructor({ port, stream }: { readonly port: number; readonly stream: () => Socket }) {
      this.#host = hosts[port] ?? assert.fail();
      const socket = stream().on("error", () => {});
      this.connection = { stream: socket };
      this.#lost = new Promise((_, reject) => {
        socket.once("close", () => reject(new Error("closed")));
      });
      this.#lost.catch(() => {});
    }

    on(event: string, listener: Notify): void {
      if (event === "notice") this.#notify = listener;
    }

    connect(): Promise<unknown> {
      return Promise.race([this.#host.connect?.(), this.#lost]);
    }

    async query({ text, values }: { readonly text: string; readonly values: readonly string[] }) {
      const answered = this.#host.query(text, values, this.#notify);
      return { rows: await Promise.race([answered, this.#lost]) };
    }
  }
  return { Client };
}

export const NEVER = new Promise<never>(() => {});

/** What a primary, or its standby, returns for the statements that say what it is. */
export function answer(text: string, { isStandby = false, timeline = 1 } = {}): unknown[] {
  if (text === CHECK_SERVER) {
    const is = [isStandby ? "t" : "f", String(timeline), `started ${timeline}`];
    return [[...is, "1", String(SESSION.length)]];
  }
  const state = [null, "the store", "standby"];
  if (text === CHECK) return [state];
  return text === PROBE ? [[...state, "1", "0 0"]] : [];
}

/** The ids that a statement creates; `undefined` for any other statement. */
export function idsOf(text: string, values: readonly string[]): string[] | undefined {
  return text === CREATE ? (values[0] ?? "").slice(1, -1).split(",") : undefined;
}

/** The rows of plants named "Fern", with the number of their batch; `exact` by id. */
export function answerCreate(
  ids: readonly string[],
  batch: string | undefined,
  exact: Readonly<Record<string, string>> = {},
): unknown[] {
  return ids.map((id) => [id, "Fern", null, exact[id] ?? null, batch]);
}

/** What the driver throws if the server refuses a statement. */
export function serverError(sqlstate: string): Error {
  const message = `refused with ${sqlstate}`;
  return Object.assign(new Error(message), { code: sqlstate, severity: "ERROR" });
}
