/** The README as its readers have it, for tests that do what it says. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { ROOT } from "./package.ts";

/** The code blocks of a section that are in this language, in order. */
export function codeBlocks(section: string, language: string): string[] {
  const readme = readFileSync(path.join(ROOT, "README.md"), "utf8");
  const text = readme.split(/^## /m).find((part) => part.startsWith(`${section}\n`)) ?? "";
  const blocks = text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, "gms"));
  return [...blocks].map(([, code = ""]) => code);
}
