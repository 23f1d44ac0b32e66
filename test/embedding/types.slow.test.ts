import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { ROOT } from "../support/package.ts";
import { compile, settle, testCompiler } from "./compile.ts";

testCompiler({ name: "TypeScript 7", home: ROOT });

test("a consumer with a mistake is not compiled", async (t) => {
  const folder = await settle(t, { module: "nodenext" }, ["consumer.ts"]);
  writeFileSync(
    path.join(folder, "consumer.ts"),
    'import { PlantStore } from "plant-store";\nexport const size: string = (await PlantStore.open("a")).size;\n',
  );
  const { status, stdout } = await compile(folder, ROOT);
  assert.notEqual(status, 0);
  assert.match(stdout, /TS2322/);
});
