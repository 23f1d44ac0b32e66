/**
 * `npm run prepare`, which npm runs when the package is installed from a git URL and after
 * `npm ci` in a clone: builds `dist/`. If the compilers are not installed, as after
 * `npm ci --omit=dev`, it reports that and changes nothing.
 */
import { existsSync } from "node:fs";

const COMPILERS = ["esbuild", "typescript"];

const missing = COMPILERS.filter((name) => {
  return !existsSync(new URL(`../../node_modules/${name}/package.json`, import.meta.url));
});
if (missing.length === 0) await import("./build.mjs");
else process.stderr.write(`dist/ was not built: ${missing.join(" and ")} not installed\n`);
