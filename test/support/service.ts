/** The real service inside the test process: store, tokens and server on a free port. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import {
  createToken,
  type NewPlant,
  PlantServer,
  PlantStore,
  type PlantStoreOptions,
  type ServerOptions,
  TokenRegistry,
} from "../../src/index.ts";
import { atEnd, makeFolder } from "./folders.ts";
import { makeLatch } from "./watch.ts";

export interface Service {
  readonly folder: string;
  readonly url: string;
  readonly port: number;
  /** A live token with both scopes. */
  readonly token: string;
  readonly store: PlantStore;
  readonly tokens: TokenRegistry;
  readonly server: PlantServer;
  /** The lines of the log on disk. */
  logLines(): string[];
  /** Sends a create with the valid token and an `application/json` body. */
  post(body: string | Uint8Array): Promise<Answer>;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The body as text. */
  readonly text: string;
}

export type ServiceOptions = Partial<ServerOptions> &
  Pick<PlantStoreOptions, "queueBytesMax"> & {
    /** Prepares the folder before the store and the tokens are opened. */
    readonly prepare?: (folder: string) => Promise<void>;
  };

/** Starts the service, and stops it when the test ends. */
export async function startService(
  t: TestContext,
  { prepare, queueBytesMax, ...options }: ServiceOptions = {},
): Promise<Service> {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "test", scopes: ["read", "write"] });
  await prepare?.(folder);
  const store = await PlantStore.open(folder, { queueBytesMax });
  const tokens = await TokenRegistry.open(folder);
  const server = await PlantServer.start({ port: 0, ...options, plants: store, tokens });
  atEnd(t, async () => {
    await server.close(0);
    tokens.close();
    await store.close();
  });
  return {
    folder,
    url: server.url,
    port: Number(new URL(server.url).port),
    token,
    store,
    tokens,
    server,
    logLines: () => readFileSync(join(folder, "plants.jsonl"), "utf8").split("\n").slice(0, -1),
    post: (body) =>
      send(`${server.url}/plants`, {
        method: "POST",
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        body,
      }),
  };
}

/** `fetch`, with the body read. */
export async function send(url: string, init: RequestInit): Promise<Answer> {
  const response = await fetch(url, init);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** The `error` number of an answer, after checking that its body is exactly an Error. */
export function errorNumber({ text }: Pick<Answer, "text">): number {
  const body = JSON.parse(text);
  const members = Object.keys(body).join();
  if (members !== "error,message" || !Number.isInteger(body.error)) {
    throw new Error(`expected an Error body, got ${text}`);
  }
  if (typeof body.message !== "string") throw new Error(`expected a message, got ${text}`);
  return body.error;
}

/** Has the creates of a service wait until they are released. */
export function holdCreates(
  t: TestContext,
  { store }: Pick<Service, "store">,
): { readonly release: () => void; readonly count: () => number } {
  const create = store.create.bind(store);
  const { released, release } = makeLatch();
  const held = t.mock.method(store, "create", async (plant: NewPlant) => {
    await released;
    return create(plant);
  });
  return { release, count: () => held.mock.callCount() };
}
