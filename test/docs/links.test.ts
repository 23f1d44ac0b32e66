/** Links of the documentation, in the repository and in the package. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { anchorsOf, BESIDE, PAGES, proseOf, SHIPPED, UNSHIPPED } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

/** Each link of a page, with the path of its file from the root. */
function linksOf(page: string) {
  const text = proseOf(page).replaceAll(/`[^`\n]*`/g, "");
  return Array.from(text.matchAll(/\]\(([^)\s]+)\)/g), ([, target = ""]) => {
    const [file = "", anchor] = target.split("#");
    return { page, file: file === "" ? page : path.join(path.dirname(page), file), anchor };
  });
}

const LINKS = PAGES.flatMap(linksOf);

test("every link of the documentation leads to a file, and to a heading in it", () => {
  const broken = LINKS.filter(({ file, anchor }) => {
    if (!existsSync(path.join(ROOT, file))) return true;
    return anchor !== undefined && !anchorsOf(file).includes(anchor);
  });
  assert.deepEqual(broken, []);
  assert.ok(LINKS.length > 60, "links are found");
});

test("the README links every page, and pages link only what the package has, but a picture", () => {
  const linked = ["README.md", ...linksOf("README.md").map(({ file }) => file)];
  const missing = SHIPPED.filter((page) => !linked.includes(page));
  assert.deepEqual(missing, []);
  const shipped = [...SHIPPED, ...BESIDE, "LICENSE"];
  const others = SHIPPED.flatMap(linksOf).filter(({ file }) => !shipped.includes(file));
  assert.deepEqual(others, [{ page: "README.md", file: UNSHIPPED, anchor: undefined }]);
});
