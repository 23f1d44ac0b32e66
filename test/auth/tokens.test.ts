/** The contract of tokens in a folder and in memory. */
import type { TestContext } from "node:test";
import * as functions from "../../src/auth/token-file.ts";
import { TokenRegistry } from "../../src/auth/token-registry.ts";
import type { NewToken } from "../../src/core/token.ts";
import { createTestStore, type TestToken } from "../../src/testing.ts";
import { IMPOSSIBLE, VERDICTS } from "../cases/tokens.ts";
import { makeFolder } from "../support/folders.ts";
import { runTokenContract, type Tokens } from "./contract.ts";

async function openFolder(t: TestContext): Promise<Tokens<string>> {
  const folder = makeFolder(t);
  const live = await TokenRegistry.open(folder);
  t.after(() => live.close());
  return { place: folder, functions, verifier: () => live.refresh().then(() => live) };
}

async function openMemory(): Promise<Tokens<TestToken[]>> {
  let store = createTestStore();
  const createToken = async (given: TestToken[], newToken: NewToken) => {
    const token = `token-${given.length}`;
    store = createTestStore({ tokens: [...given, { ...newToken, token }] });
    given.push({ ...newToken, token });
    return token;
  };
  return { place: [], functions: { createToken }, verifier: async () => store.tokens };
}

runTokenContract("folder", openFolder);
// The test kit makes expired tokens, too.
const impossible = IMPOSSIBLE.filter((wrong) => !("expiresAt" in wrong) || wrong.expiresAt !== 0);
runTokenContract("memory", openMemory, VERDICTS, impossible);
