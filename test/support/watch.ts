/** Waits for events that happen by themselves, and collects messages of the channels. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { TestContext } from "node:test";
import type { WarningMessage } from "../../src/index.ts";

/**
 * After how long a test gives up. It is not a limit on speed: on a busy machine a slow event is waited
 * for, and only an event that never happens meets this limit.
 */
export const HANG_MS = 60_000;
/** The same for a whole test, or a group of tests. */
export const TIMEOUT: { readonly timeout: number } = { timeout: 3 * HANG_MS };

const LOOK_EVERY_MS = 10;

/** Resolves once the condition holds; throws if it does not before the deadline. */
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

/** A promise that resolves when it is released. */
export function makeLatch(): { readonly released: Promise<void>; readonly release: () => void } {
  let release = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  return { released, release };
}

/** Collects messages on a channel until the test ends; with `ours`, only those that it accepts. */
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

/** Collects warnings until the test ends; with a path, only those that name it. */
export function collectWarnings(t: TestContext, path = ""): readonly WarningMessage[] {
  return collectMessages(t, "plant-store:warning", ({ message }) => message.includes(path));
}
