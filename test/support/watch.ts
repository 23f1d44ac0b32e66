/** Waiting for what happens by itself, and hearing what the rooms say. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { TestContext } from "node:test";
import type { WarningMessage } from "../../src/index.ts";

/**
 * When a test gives up on what should have come long ago. It bounds nothing: what is
 * merely slow, on a machine that is busy, is waited for, and only what hangs meets it.
 */
export const HANG_MS = 60_000;
/** The same for a whole test, or for a group of them. */
export const TIMEOUT: { readonly timeout: number } = { timeout: 3 * HANG_MS };

const LOOK_EVERY_MS = 10;

/** Resolves once the condition holds; throws when it does not by the deadline. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
): Promise<void> {
  const deadline = performance.now() + HANG_MS;
  while (!(await condition())) {
    if (performance.now() > deadline) throw new Error(`not within ${HANG_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

/** What somebody waits for until it is released, once and for all. */
export function makeLatch(): { readonly released: Promise<void>; readonly release: () => void } {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { released, release };
}

/** What is published on a channel until the test ends, perhaps only what is `ours`. */
export function collectMessages<Message>(
  t: TestContext,
  channel: string,
  ours: (message: Message) => boolean = () => true,
): readonly Message[] {
  const messages: Message[] = [];
  const listener = (published: unknown) => {
    if (ours(published as Message)) messages.push(published as Message);
  };
  subscribe(channel, listener);
  t.after(() => unsubscribe(channel, listener));
  return messages;
}

/** What is published on `plant-store:warning` until the test ends, perhaps only what names a path. */
export function collectWarnings(t: TestContext, path = ""): readonly WarningMessage[] {
  return collectMessages(t, "plant-store:warning", ({ message }) => message.includes(path));
}
