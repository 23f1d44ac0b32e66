/** Links of the documentation, in the repository and in the package, and the scripts that it names. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { headingsOf, PAGES, proseOf, readPage, SHIPPED, UNSHIPPED } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

interface Link {
  readonly page: string;
  /** The path of the file from the root. */
  readonly file: string;
  readonly anchor: string | undefined;
}

function linksOf(page: string): Link[] {
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
  assert.deepEqual(
    SHIPPED.filter((page) => !files.includes(page)),
    [],
  );
  const broken = LINKS.filter(({ page, file }) => SHIPPED.includes(page) && !files.includes(file));
  assert.deepEqual(
    broken.map(({ file }) => file),
    [UNSHIPPED],
  );
});

test("the README links every page of the documentation", () => {
  const linked = linksOf("README.md").map(({ file }) => file);
  assert.deepEqual(
    SHIPPED.filter((page) => page !== "README.md" && !linked.includes(page)),
    [],
  );
});

const { scripts } = JSON.parse(readFileSync(path.join(ROOT, "package.json"), "utf8"));

test("every npm script that a page names exists", () => {
  const named = PAGES.flatMap((page) =>
    Array.from(readPage(page).matchAll(/npm run ([\w:-]+)/g), ([, script = ""]) => ({
      page,
      script,
    })),
  );
  assert.deepEqual(
    named.filter(({ script }) => !(script in scripts)),
    [],
  );
  assert.ok(named.length > 10, "scripts are found");
});
