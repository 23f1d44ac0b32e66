/** The commands for PostgreSQL's own client in the documentation. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { blocksOf, PAGES } from "../support/docs.ts";

test("every psql of the documentation stops at its first error", () => {
  const commands = PAGES.flatMap(blocksOf).flatMap(({ place, code }) =>
    code
      .replaceAll("\\\n", " ")
      .split("\n")
      .flatMap((line) => line.split(/\bpsql\b/).slice(1))
      .map((command) => ({ place, command })),
  );
  assert.ok(commands.length > 0, "they are found");
  for (const { place, command } of commands) {
    assert.match(command, /-v ON_ERROR_STOP=1/, `${place}: psql${command}`);
  }
});
