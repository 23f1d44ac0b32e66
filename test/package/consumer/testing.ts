/** A test of an embedding program, to be compiled: every export of `plant-store/testing`. */
import { createRequestListener } from "plant-store";
import { createTestStore, type TestStore, type TestToken } from "plant-store/testing";

export async function main(): Promise<void> {
  const expiresAt = new Date();
  const token: TestToken = { token: "secret", name: "test", scopes: ["read"], expiresAt };
  const { plants, tokens, close }: TestStore = createTestStore({ tokens: [token] });
  createRequestListener({ plants, tokens });
  await close();
}
