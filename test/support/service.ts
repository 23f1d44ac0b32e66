/** The real service inside the test process, other servers of `node:http`, and requests to them. */

import { once } from "node:events";
import { readFileSync } from "node:fs";
import http, { type RequestListener } from "node:http";
import net, { type AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { NewPlant, ServerOptions } from "../../src/index.ts";
import { createToken, PlantServer, PlantStore, TokenRegistry } from "../../src/index.ts";
import { atEnd, makeFolder } from "./folders.ts";
import { makeLatch } from "./watch.ts";

export type Service = Awaited<ReturnType<typeof startService>>;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  /** The body as text. */
  readonly text: string;
}

export type ServiceOptions = Partial<ServerOptions>;

/** Starts the service, with a live token that has both scopes, and stops it when the test ends. */
export async function startService(t: TestContext, options: ServiceOptions = {}) {
  const folder = makeFolder(t);
  const token = await createToken(folder, { name: "test", scopes: ["read", "write"] });
  const store = await PlantStore.open(folder);
  atEnd(t, () => store.close());
  const tokens = await TokenRegistry.open(folder);
  atEnd(t, () => tokens.close());
  const server = await PlantServer.start({ port: 0, ...options, plants: store, tokens });
  atEnd(t, () => server.close(0));
  const { url } = server;
  /** The lines of the log on disk. */
  const logLines = () =>
    readFileSync(join(folder, "plants.jsonl"), "utf8").split("\n").slice(0, -1);
  /** Sends a create with the token. */
  const post = (body: string | Uint8Array) => postPlant(url, token, body);
  return {
    folder,
    url,
    port: Number(new URL(url).port),
    token,
    store,
    tokens,
    server,
    logLines,
    post,
  };
}

/** `fetch`, with the body read. */
export async function send(url: string, init: RequestInit): Promise<Answer> {
  const response = await fetch(url, init);
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** A create, also to a server in a process of its own. */
export function postPlant(url: string, token: string, body: string | Uint8Array): Promise<Answer> {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  return send(`${url}/plants`, { method: "POST", headers, body });
}

/** The `error` number of an answer, after checking that its body is exactly an Error. */
export function errorNumber({ text }: Pick<Answer, "text">): number {
  const { error, message, ...others } = JSON.parse(text);
  const isError = Number.isInteger(error) && typeof message === "string";
  if (isError && Object.keys(others).length === 0) return error;
  throw new Error(`expected an Error body, got ${text}`);
}

/** Has the creates of a service wait until they are released. */
export function holdCreates(t: TestContext, { store }: Pick<Service, "store">) {
  const create = store.create.bind(store);
  const { released, release } = makeLatch();
  const { mock } = t.mock.method(store, "create", async (plant: NewPlant) => {
    await released;
    return create(plant);
  });
  return { release, count: () => mock.callCount() };
}

/** Serves on a free port until the test ends, then closes all connections. */
export async function serve(
  t: TestContext,
  listener: RequestListener,
  options: http.ServerOptions = {},
) {
  const server = http.createServer(options, listener);
  await once(server.listen(0, "127.0.0.1"), "listening");
  atEnd(t, () => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, port };
}

/** A free port, for a program that cannot report which port the system selected. */
export async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}
