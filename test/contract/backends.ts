/** The backends in this process: the log in a folder, the store of `plant-store/testing`, and a failing store. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import http from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../../src/core/plant.ts";
import { formatToken, TOKEN_BYTES } from "../../src/core/token.ts";
import {
  createRequestListener,
  createToken,
  type ErrorCode,
  type NewToken,
  PlantServer,
  type PlantService,
  PlantStore,
  PlantStoreError,
  revokeToken,
  type Scope,
  subscribe,
  TokenRegistry,
  type TokenVerifier,
} from "../../src/index.ts";
import { createTestStore, type TestToken } from "../../src/testing.ts";
import type { BackendName, ServerSetting } from "../cases/case.ts";
import { SECRET, THROWN } from "../cases/failures.ts";
import { atEnd, makeFolder } from "../support/folders.ts";
import { linesOf } from "../support/plants.ts";
import type { Backend, Running } from "./runner.ts";

/** What a server is made of. */
export interface Ports extends Omit<Running, "port"> {
  readonly plants: PlantService;
  readonly verifier: TokenVerifier;
}

/** A service of its own, or the listener in a server of `node:http`. */
export function inProcess(
  name: BackendName,
  open: (t: TestContext, setting: ServerSetting) => Promise<Ports>,
  isMounted = false,
): Backend {
  return {
    name,
    async start(t, setting) {
      const { plants, verifier, ...ports } = await open(t, setting);
      const { given = [], skip: _, hasExpired: _expired, ...options } = setting;
      await Promise.all(given.map((line) => plants.create(parse(line))));
      await ports.takeStored();
      await expire(setting);
      const all = { ...options, plants, tokens: verifier };
      if (!isMounted) {
        const server = await PlantServer.start({ port: 0, ...all });
        atEnd(t, () => server.close(0));
        return { ...ports, port: Number(new URL(server.url).port) };
      }
      const server = http
        .createServer({ joinDuplicateHeaders: true }, createRequestListener(all))
        .listen(0, "127.0.0.1");
      await once(server, "listening");
      atEnd(t, () => {
        server.close();
        server.closeAllConnections();
      });
      return { ...ports, port: (server.address() as AddressInfo).port };
    },
  };
}

const SCOPES: Readonly<Record<string, readonly Scope[]>> = {
  write: ["write"],
  read: ["read"],
  both: ["read", "write"],
  revoked: ["write"],
};
/** Within this time the token is created, however busy the machine is. */
const EXPIRES_MS = 200;

/** Creates and revokes tokens in a folder, or in a database. */
export interface Tokens<Place> {
  readonly createToken: (at: Place, token: NewToken) => Promise<string>;
  readonly revokeToken: (at: Place, name: string) => Promise<void>;
}

/** Creates the tokens of the rows. */
export async function createTokens<Place>(
  at: Place,
  { hasExpired = false }: ServerSetting,
  { createToken, revokeToken }: Tokens<Place>,
): Promise<Record<string, string>> {
  const tokens: Record<string, string> = {};
  if (hasExpired) {
    const expiresAt = Date.now() + EXPIRES_MS;
    tokens.expired = await createToken(at, { name: "expired", expiresAt });
  }
  for (const [name, scopes] of Object.entries(SCOPES)) {
    tokens[name] = await createToken(at, { name, scopes });
  }
  await revokeToken(at, "revoked");
  return tokens;
}

/** Waits until that token has expired. */
export async function expire({ hasExpired = false }: ServerSetting): Promise<void> {
  if (hasExpired) await sleep(EXPIRES_MS);
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

async function openFolder(t: TestContext, setting: ServerSetting): Promise<Ports> {
  const folder = makeFolder(t);
  const tokens = await createTokens(folder, setting, { createToken, revokeToken });
  const plants = await PlantStore.open(folder);
  const verifier = await TokenRegistry.open(folder);
  atEnd(t, async () => {
    verifier.close();
    await plants.close();
  });
  return { plants, verifier, tokens, takeStored: followLog(folder) };
}

/** There is nothing to revoke: the token `revoked` is an unknown one. */
async function openMemory(_t: TestContext, setting: ServerSetting): Promise<Ports> {
  const given: TestToken[] = [];
  const tokens = await createTokens(given, setting, {
    createToken: async (all, newToken) => {
      const token = formatToken(randomBytes(TOKEN_BYTES));
      all.push({ ...newToken, token });
      return token;
    },
    revokeToken: async (all) => void all.pop(),
  });
  const { plants, tokens: verifier } = createTestStore({ tokens: given });
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
