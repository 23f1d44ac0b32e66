/** Waiting for what happens by itself, and hearing what the rooms say. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { TestContext } from "node:test";
import type { WarningMessage } from "../../src/index.ts";

/** Far beyond the 2 s that anything here may take, and an end for a test that waits in vain. */
const DEADLINE_MS = 6000;
const LOOK_EVERY_MS = 10;

/** Resolves once the condition holds; throws when it does not by the deadline. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${DEADLINE_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** What is published on `plant-store:warning` until the test ends, perhaps only what names a path. */
export function collectWarnings(t: TestContext, path = ""): readonly WarningMessage[] {
  const warnings: WarningMessage[] = [];
  const listener = (published: unknown) => {
    const warning = published as WarningMessage;
    if (warning.message.includes(path)) warnings.push(warning);
  };
  subscribe("plant-store:warning", listener);
  t.after(() => unsubscribe("plant-store:warning", listener));
  return warnings;
}
