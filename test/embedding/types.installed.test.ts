/** The oldest compiler that the declarations are for. */
import path from "node:path";
import { ROOT, whyNotInstalled } from "../support/package.ts";
import { testCompiler } from "./compile.ts";

testCompiler("TypeScript 5.9", path.join(ROOT, "test/package"), whyNotInstalled("test/package"));
