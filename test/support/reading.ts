/** A service that holds plants, and a token that may read them back. */
import type { TestContext } from "node:test";
import { createToken, type NewPlant } from "../../src/index.ts";
import { type Answer, type Service, type ServiceOptions, send, startService } from "./service.ts";

interface ReadableService extends Service {
  /** A live token with the scope `read` only. */
  readonly readToken: string;
}

/** Starts the service with these plants in it, in this order. */
export async function startReadable(
  t: TestContext,
  plants: readonly NewPlant[],
  options: ServiceOptions = {},
): Promise<ReadableService> {
  let readToken = "";
  const service = await startService(t, {
    ...options,
    prepare: async (folder) => {
      readToken = await createToken(folder, { name: "reader", scopes: ["read"] });
      await options.prepare?.(folder);
    },
  });
  await Promise.all(plants.map((plant) => service.store.create(plant)));
  return { ...service, readToken };
}

/** This many plants, with the ids 1, 2, 3, … and names of one length, so their lines have known lengths. */
export function manyPlants(count: number, nameLength = 4): NewPlant[] {
  const name = "x".repeat(nameLength);
  return Array.from({ length: count }, (_, index) => ({ id: BigInt(index + 1), name }));
}

/** A GET, or a request with another method, with the token that may read. */
export function read(
  { url, readToken }: Pick<ReadableService, "url" | "readToken">,
  path: string,
  headers: Record<string, string> = {},
  method = "GET",
): Promise<Answer> {
  return send(new URL(path, url).href, {
    method,
    headers: { Authorization: `Bearer ${readToken}`, ...headers },
  });
}

/** The URL of the next page in `Link`, resolved against the URL of its page. */
export function nextOf(path: string, { headers }: Pick<Answer, "headers">): string | undefined {
  const link = headers.get("link");
  if (link === null) return undefined;
  const target = /^<([^>]*)>; rel="next"$/.exec(link)?.[1];
  if (target === undefined) throw new Error(`expected a link to the next page, got ${link}`);
  const { pathname, search } = new URL(target, new URL(path, "http://localhost"));
  return pathname + search;
}
