/** Older compilers than that of the project, among them the oldest that the declarations are for. */
import path from "node:path";
import { ROOT, whyNotInstalled } from "../support/package.ts";
import { testCompiler } from "./compile.ts";

const NEWER = "test/package";
const OLDEST = "test/embedding/typescript-5.0";

testCompiler({ name: "TypeScript 5.9", home: path.join(ROOT, NEWER) }, whyNotInstalled(NEWER));
testCompiler(
  {
    name: "TypeScript 5.0",
    home: path.join(ROOT, OLDEST),
    typesHome: path.join(ROOT, OLDEST),
    knows: ["bundler", "an old library, es2020", "a browser", "every check there is"],
  },
  whyNotInstalled(OLDEST),
);
