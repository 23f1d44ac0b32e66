/**
 * A real Chromium, where there is one: `CHROMIUM` names it, or it stands where
 * Debian puts it, and its driver is installed under test/interop.
 */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import type { TestContext } from "node:test";
import { pathToFileURL } from "node:url";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const INTEROP = createRequire(new URL("../interop/package.json", import.meta.url));

/** What the tests use of the driver, whose types are not installed with the project. */
export interface Page {
  goto(url: string): Promise<unknown>;
  close(): Promise<void>;
  on(event: "console", listener: (message: { text(): string }) => void): void;
  on(event: "pageerror", listener: (error: Error) => void): void;
  on(event: "request", listener: (request: { url(): string }) => void): void;
  evaluate<T>(expression: string): Promise<T>;
  waitForFunction(expression: string, options?: { timeout: number }): Promise<unknown>;
  setViewport(size: { width: number; height: number }): Promise<void>;
  emulateMediaFeatures(features: { name: string; value: string }[]): Promise<void>;
  screenshot(options: { path: string; fullPage: boolean }): Promise<unknown>;
}

export interface Browser {
  newPage(): Promise<Page>;
  close(): Promise<void>;
}

/** Why no browser can be had, for a test to say so; `undefined` when one can. */
export function missingBrowser(): string | undefined {
  if (!existsSync(CHROMIUM)) return `there is no Chromium at ${CHROMIUM}`;
  if (findDriver() === undefined) return 'its driver is missing: "npm run install:checks"';
  return undefined;
}

function findDriver(): string | undefined {
  try {
    return INTEROP.resolve("puppeteer-core");
  } catch {
    return undefined;
  }
}

/** Starts a browser; the end of the test ends it. */
export async function startBrowser(t: TestContext): Promise<Browser> {
  const { default: puppeteer } = await import(pathToFileURL(findDriver() ?? "").href);
  const browser: Browser = await puppeteer.launch({
    executablePath: CHROMIUM,
    // Its sandbox does not work for root, who runs the tests of disks; the pages are our own.
    args: process.getuid?.() === 0 ? ["--no-sandbox"] : [],
  });
  t.after(() => browser.close());
  return browser;
}
