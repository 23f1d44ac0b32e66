/** The files of docs/deploy: the tools that read them accept them, and they name what exists. */
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import path from "node:path";
import { test } from "node:test";
import { runCli } from "../support/cli.ts";
import { codeBlocks, readPage, rowsOf, wordsIn } from "../support/docs.ts";
import { ROOT } from "../support/package.ts";

const DASHBOARD = "docs/deploy/grafana-dashboard.json";
const SYSTEMD = spawnSync("systemd-analyze", ["--version"]).status === 0;

test("the dashboard has ten panels, and it and the alerts ask for metrics that exist", () => {
  assert.equal(JSON.parse(readPage(DASHBOARD)).panels.length, 10);
  const known = rowsOf("docs/operating.md", "metric").map(({ metric }) => {
    return wordsIn(metric)[0]?.replace(/\{.*/, "");
  });
  for (const file of [DASHBOARD, "docs/deploy/prometheus-rules.yml"]) {
    const named = readPage(file).match(/\b(plant_store|process)_\w+/g) ?? [];
    const names = named.map((name) => name.replace(/_(bucket|sum|count)$/, ""));
    assert.ok(names.length >= 10);
    assert.deepEqual(
      names.filter((name) => !known.includes(name)),
      [],
    );
  }
});

const skip = SYSTEMD ? false : "needs systemd-analyze, not found here";
test("systemd accepts the units of the daily backup", { skip }, () => {
  const files = ["service", "timer"].map((type) => {
    return path.join(ROOT, `docs/deploy/plant-store-backup.${type}`);
  });
  const { stdout, stderr } = spawnSync("systemd-analyze", ["verify", ...files], {
    encoding: "utf8",
  });
  const ours = (stdout + stderr).split("\n").filter((line) => line.includes("plant-store-backup"));
  const isMissing = (line: string) => line.includes("/usr/local/bin/plant-store");
  assert.deepEqual(
    ours.filter((line) => !isMissing(line)),
    [],
  );
});

test("every variable that the deployments set is one that serve reads", async () => {
  const { stdout } = await runCli(["serve", "--help"]);
  const files = ["Dockerfile", "compose.yaml", "kubernetes.yaml"].map((name) => {
    return readPage(`docs/deploy/${name}`).replace(/#.*$/gm, "");
  });
  const settings = ["Settings", "A certificate"].flatMap((section) =>
    codeBlocks("docs/deploy.md", section, "ini"),
  );
  const named = [...files, ...settings].join("\n").match(/\bPLANT_STORE_\w+/g) ?? [];
  assert.ok(named.length > 5);
  assert.deepEqual(
    named.filter((name) => !stdout.includes(`[${name}]`)),
    [],
  );
});
