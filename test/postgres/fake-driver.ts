/**
 * A driver for faults that no real server can be brought to: the hosts are fakes, the rest is the store
 * itself.
 */
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import type { PgModule } from "../../src/postgres/index.ts";
import { CHECKS, INSPECT, INSPECT_SERVER } from "../../src/postgres/inspection.ts";

export interface Host {
  connect(): Promise<unknown>;
  /** The rows of a statement; `notify` is what the server says while it runs. */
  query(
    text: string,
    values: readonly string[],
    notify: (notice: object) => void,
  ): Promise<unknown[]>;
}

/** A driver for hosts by their ports. */
export function fakeDriver(hosts: Readonly<Record<number, Host>>): PgModule {
  class Client {
    binary = false;
    readonly connectionParameters = {};
    readonly connection;
    readonly #socket: Socket;
    readonly #port: number;
    #notify = (_: object) => {};
    /** Rejects when the store gives the connection up. */
    readonly #lost: Promise<never>;

    constructor({ port, stream }: { readonly port: number; readonly stream: () => Socket }) {
      this.#port = port;
      this.#socket = stream().on("error", () => {});
      this.connection = { stream: this.#socket };
      this.#lost = new Promise((_, reject) => {
        this.#socket.once("close", () => reject(new Error("closed")));
      });
      this.#lost.catch(() => {});
    }

    get #host(): Host {
      return hosts[this.#port] ?? assert.fail();
    }

    on(event: string, listener: (notice: object) => void): void {
      if (event === "notice") this.#notify = listener;
    }

    connect(): Promise<unknown> {
      return Promise.race([this.#host.connect(), this.#lost]);
    }

    async query({ text, values }: { readonly text: string; readonly values: readonly string[] }) {
      const rows = await Promise.race([this.#host.query(text, values, this.#notify), this.#lost]);
      if (text === INSPECT_SERVER)
        return { rows: [(rows[0] as string[]).slice(0, 2)], command: "SELECT" };
      if (text === INSPECT) return { rows: [(rows[0] as string[]).slice(2)], command: "SELECT" };
      return { rows, command: "SELECT" };
    }

    async end(): Promise<void> {
      this.#socket.destroy();
    }
  }
  return { Client };
}

export const NEVER = new Promise<never>(() => {});

/** What the statements of a look at a primary, or at its standby, return: each a part of this row. */
export function answerLook(isStandby: boolean, timeline = 1): unknown[] {
  const log = isStandby ? null : `0000000${timeline}0000000000000001`;
  return [[log, "1", "the store", "0", "f", "f", "f", ...CHECKS.map(() => "f")]];
}

/** The ids that a statement creates; `undefined` for any other statement. */
export function idsOf(text: string, values: readonly string[]): string[] | undefined {
  if (!text.includes("INSERT INTO plant_store.plants ")) return undefined;
  return (values[0] ?? "").slice(1, -1).split(",");
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
  return Object.assign(new Error(`refused with ${sqlstate}`), {
    code: sqlstate,
    severity: "ERROR",
  });
}
