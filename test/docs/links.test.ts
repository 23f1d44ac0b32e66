/** Links of the documentation, in the repository and in the package, and the scripts that it names. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { headingsOf, PAGES, proseOf, readPage, SHIPPED, UNSHIPPED } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

/** The links of a page, each with the path of its file from the root. */
function linksOf(page: string) {
  const text = proseOf(page).replaceAll(/`[^`\n]*`/g, "");
  return Array.from(text.matchAll(/\]\(([^)\s]+)\)/g), ([, target = ""]) => {
    const [file = "", anchor] = target.split("#");
    const where = file === "" ? page : path.join(path.dirname(page), file);
    return { page, file: where, anchor };
  });
}

const LINKS = PAGES.flatMap(linksOf);

test("every link of the documentation leads to a file, and to a heading in it", () => {
  const broken = LINKS.filter(({ file, anchor }) => {
    if (!existsSync(path.join(ROOT, file))) return true;
    return anchor !== undefined && !headingsOf(file).some((heading) => heading.anchor === anchor);
  });
  assert.deepEqual(broken, []);
  assert.ok(LINKS.length > 60, "links are found");
});

test("every link of a page in the package leads to a file in the package, except to the picture of the status page", () => {
  // The pages need no build.
  const words = ["pack", "--silent", "--dry-run", "--ignore-scripts", "--json"];
  const [listed] = JSON.parse(execFileSync("npm", words, { cwd: ROOT, encoding: "utf8" }));
  const files: string[] = listed.files.map((file: { readonly path: string }) => file.path);
  const links = LINKS.filter(({ page }) => SHIPPED.includes(page)).map(({ file }) => file);
  const missing = [...SHIPPED, ...links].filter((file) => !files.includes(file));
  assert.deepEqual(missing, [UNSHIPPED]);
});

test("the README links every page of the documentation", () => {
  const linked = ["README.md", ...linksOf("README.md").map(({ file }) => file)];
  const missing = SHIPPED.filter((page) => !linked.includes(page));
  assert.deepEqual(missing, []);
});

test("every npm script that a page names exists", () => {
  const { scripts } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));
  const named = PAGES.flatMap((page) => [...readPage(page).matchAll(/npm run ([\w:-]+)/g)]);
  for (const [, script = ""] of named) assert.ok(script in scripts, script);
  assert.ok(named.length > 10, "scripts are found");
});
