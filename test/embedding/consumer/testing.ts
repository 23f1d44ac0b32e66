/** A test of an embedding program, to be compiled: every export of `plant-store/testing`. */
import { createRequestListener } from "plant-store";
import {
  createTestStore,
  type TestStore,
  type TestStoreOptions,
  type TestToken,
} from "plant-store/testing";

export async function main(): Promise<void> {
  const token: TestToken = { token: "secret", name: "test", scopes: ["read"] };
  const options: TestStoreOptions = { tokens: [token] };
  const { plants, tokens, close }: TestStore = createTestStore(options);
  createRequestListener({ plants, tokens });
  await close();
}
