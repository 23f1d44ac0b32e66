/**
 * A real Chromium, if there is one: at the path in `CHROMIUM`, or where Debian installs it. Its driver
 * is installed in test/interop.
 */
import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { TestContext } from "node:test";
import { pathToFileURL } from "node:url";
import { HANG_MS } from "./watch.ts";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const INTEROP = createRequire(new URL("../interop/package.json", import.meta.url));

/** The part of the driver that the tests use; its types are not installed with the project. */
export interface Page {
  goto(url: string): Promise<unknown>;
  close(): Promise<void>;
  on(event: "console", listener: (message: { text(): string }) => void): void;
  on(event: "pageerror", listener: (error: Error) => void): void;
  on(event: "request", listener: (request: { url(): string }) => void): void;
  evaluate<T>(expression: string): Promise<T>;
  evaluateOnNewDocument(expression: string): Promise<unknown>;
  click(selector: string): Promise<void>;
  readonly keyboard: { press(key: string): Promise<void> };
  readonly mouse: { move(x: number, y: number): Promise<void> };
  waitForFunction(expression: string, options?: { timeout: number }): Promise<unknown>;
  setViewport(size: { width: number; height: number }): Promise<void>;
  emulateMediaFeatures(features: { name: string; value: string }[]): Promise<void>;
  screenshot(options: { path: string; fullPage: boolean }): Promise<unknown>;
}

export interface Browser {
  newPage(): Promise<Page>;
  close(): Promise<void>;
}

/** Why there is no browser, as the reason for a skipped test; `undefined` if there is one. */
export function missingBrowser(): string | undefined {
  if (!existsSync(CHROMIUM)) return `there is no Chromium at ${CHROMIUM}`;
  if (findDriver() === undefined) return 'its driver is missing: "npm ci --prefix test/interop"';
  return undefined;
}

function findDriver(): string | undefined {
  try {
    return INTEROP.resolve("puppeteer-core");
  } catch {
    return undefined;
  }
}

/** The rules of axe-core that a page breaks, each with the elements that break it. */
export function breachesOf(page: Page): Promise<string[]> {
  const axe = readFileSync(INTEROP.resolve("axe-core"), "utf8");
  return page.evaluate<string[]>(`${axe};
    axe.run().then(({ violations }) => violations.map(({ id, nodes }) => {
      return id + ": " + nodes.map(({ target }) => target.join(" ")).join(", ");
    }));`);
}

/** Starts a browser, until the test ends. */
export async function startBrowser(t: TestContext): Promise<Browser> {
  const browser = await launchBrowser();
  t.after(() => browser.close());
  return browser;
}

/** Starts a browser, which the caller closes. */
export async function launchBrowser(): Promise<Browser> {
  const { default: puppeteer } = await import(pathToFileURL(findDriver() ?? "").href);
  return puppeteer.launch({
    executablePath: CHROMIUM,
    timeout: HANG_MS,
    // The sandbox does not work for root, who runs the tests of disks; the pages are our own.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
}
