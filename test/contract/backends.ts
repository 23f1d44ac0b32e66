/** The backends in this process: the log in a folder, the store of `plant-store/testing`, and a failing store. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { formatToken, hashToken, TOKEN_BYTES, type TokenRecord } from "../../src/core/token.ts";
import type { ErrorCode, PlantService, TokenVerifier } from "../../src/index.ts";
import {
  createRequestListener,
  importTokens,
  PlantServer,
  PlantStore,
  PlantStoreError,
  subscribe,
  TokenRegistry,
} from "../../src/index.ts";
import { createTestStore } from "../../src/testing.ts";
import type { BackendName } from "../cases/case.ts";
import { SECRET, THROWN } from "../cases/failures.ts";
import { atEnd, makeFolder } from "../support/folders.ts";
import { serve } from "../support/service.ts";
import { linesOf } from "../support/stores.ts";
import type { Backend, Running } from "./runner.ts";

/** What a server is made of. */
export interface Ports extends Omit<Running, "port"> {
  readonly plants: PlantService;
  readonly verifier: TokenVerifier;
}

/** A service of its own, or the listener in a server of `node:http`. */
export function inProcess(
  name: BackendName,
  open: (t: TestContext) => Promise<Ports>,
  isMounted = false,
): Backend {
  return {
    name,
    async start(t, setting) {
      const { plants, verifier, ...ports } = await open(t);
      const { given = [], skip: _, ...options } = setting;
      await Promise.all(given.map((line) => plants.create(parse(line))));
      await ports.takeStored();
      const all = { ...options, plants, tokens: verifier };
      if (!isMounted) {
        const server = await PlantServer.start({ port: 0, ...all });
        atEnd(t, () => server.close(0));
        return { ...ports, port: Number(new URL(server.url).port) };
      }
      const listener = createRequestListener(all);
      const { port } = await serve(t, listener, { joinDuplicateHeaders: true });
      return { ...ports, port };
    },
  };
}

const TOKENS = {
  write: { scopes: ["write"] },
  read: { scopes: ["read"] },
  both: { scopes: ["read", "write"] },
  expired: { scopes: ["write"], expiresAt: 1 },
  revoked: { scopes: ["write"], revokedAt: 1 },
} as const;

/** The tokens of the rows, as themselves, by their names, and as records to import. */
export function makeTokens() {
  const given = Object.entries(TOKENS).map(([name, members]) => {
    return { name, token: formatToken(randomBytes(TOKEN_BYTES)), ...members };
  });
  const records = given.map(({ token, ...members }): TokenRecord => {
    return { hash: hashToken(token), createdAt: 0, ...members };
  });
  return {
    given,
    records,
    tokens: Object.fromEntries(given.map((each) => [each.name, each.token])),
  };
}

function parse(line: string): NewPlant {
  return parseNewPlant(Buffer.from(line));
}

/** Reads what is new in the log of a folder. */
export function followLog(folder: string): Running["takeStored"] {
  let seen = 0;
  const file = join(folder, "plants.jsonl");
  return async () => {
    const bytes = readFileSync(file);
    const text = bytes.toString("utf8", seen);
    seen = bytes.length;
    return text.split("\n").slice(0, -1);
  };
}

async function openFolder(t: TestContext): Promise<Ports> {
  const folder = makeFolder(t);
  const { records, tokens } = makeTokens();
  await importTokens(folder, records);
  const plants = await PlantStore.open(folder);
  const verifier = await TokenRegistry.open(folder);
  atEnd(t, async () => {
    verifier.close();
    await plants.close();
  });
  return { plants, verifier, tokens, takeStored: followLog(folder) };
}

/** There is nothing to revoke: the token `revoked` is an unknown one. */
async function openMemory(): Promise<Ports> {
  const { given, tokens } = makeTokens();
  const live = given.filter(({ name }) => name !== "revoked");
  const { plants, tokens: verifier } = createTestStore({ tokens: live });
  let last: bigint | undefined;
  const takeStored = async () => {
    const found = await linesOf(plants.listLines({ after: last }));
    const newest = found.at(-1);
    if (newest !== undefined) last = parseNewPlant(Buffer.from(newest)).id;
    return found;
  };
  return { plants, verifier, tokens, takeStored };
}

/** Throws what `THROWN` says about an id. */
function fail(id: bigint | undefined): void {
  const [, code, , message = ""] = THROWN.find(([each]) => BigInt(each) === id) ?? [];
  if (code === undefined) return;
  if (code === "TypeError") throw new TypeError(`no such property of ${SECRET}`);
  if (code === "string") throw SECRET;
  if (code === "undefined") throw undefined;
  throw new PlantStoreError(code as ErrorCode, message, { cause: SECRET });
}

const created: string[] = [];

const FAILING: Ports = {
  plants: {
    create: async (plant) => {
      fail(plant.id);
      created.push(encodeNewPlant(plant));
      return "created";
    },
    getLine: async (id) => {
      fail(id);
      return undefined;
    },
    listLines: async function* ({ after } = {}) {
      fail(after);
      yield* [];
    },
  },
  verifier: {
    verify: (token) => {
      if (token === "failing") throw new Error(SECRET);
      if (token === "rejecting") return Promise.reject(new Error(SECRET));
      if (token === "unread")
        throw new PlantStoreError("tokens_unreadable", "later", { cause: SECRET });
      return token === "good" ? { name: token, scopes: ["read", "write"] } : undefined;
    },
  },
  tokens: { write: "good", read: "good" },
  takeStored: async () => created.splice(0),
};

export const FILE = inProcess("file", openFolder);
export const MEMORY = inProcess("memory", openMemory);
export const MOUNTED = inProcess("mounted", openFolder, true);
export const FAILING_STORE = inProcess("failing", async (t) => {
  t.after(subscribe("plant-store:warning", () => {})); // instead of a warning of the process
  return FAILING;
});
