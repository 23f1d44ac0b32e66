/** The container files of the documentation, and the options that they set. */
import assert from "node:assert/strict";
import { existsSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { canRun } from "../faults/machine.ts";
import { runCli, startServer } from "../support/cli.ts";
import {
  blocksOf,
  CONTAINER_FILES,
  codeBlocks,
  imageVariables,
  PAGES,
  readPage,
} from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { ROOT } from "../support/package.ts";
import { runToEnd } from "../support/run.ts";
import { freePort } from "../support/serve.ts";

/** The variables of options that a text sets. */
function variablesIn(text: string): string[] {
  return Array.from(text.matchAll(/\b(PLANT_STORE_\w+)[=:]/g), ([, name = ""]) => name);
}

test("the container files set variables of options", async () => {
  const { stdout } = await runCli(["serve", "--help"]);
  for (const file of CONTAINER_FILES) {
    const variables = variablesIn(readPage(file));
    assert.ok(variables.length > 0, "they are found");
    for (const name of variables) assert.ok(stdout.includes(`[${name}]`), name);
  }
});

test("the Dockerfile copies files that exist, and runs scripts and commands that exist", async () => {
  const text = readPage("docs/Dockerfile");
  const copied = Array.from(
    text.matchAll(/^COPY (?!--from)(.*) \S+$/gm),
    ([, names = ""]) => names,
  );
  const names = copied.flatMap((line) => line.split(" "));
  assert.ok(names.includes("package.json") && names.includes("src"), "they are found");
  for (const name of names) assert.ok(existsSync(path.join(ROOT, name)), name);
  const scripts = Array.from(text.matchAll(/npm run (\S+)/g), ([, script = ""]) => script);
  assert.deepEqual(scripts, ["build:executable"]);
  assert.ok(JSON.parse(readPage("package.json")).scripts[scripts[0] ?? ""]);
  const words = Array.from(text.matchAll(/CMD (\[.*\])$/gm), ([, json = ""]) => JSON.parse(json));
  assert.deepEqual(words, [["/plant-store", "health"], ["serve"]]);
  for (const command of ["health", "serve"]) {
    assert.equal((await runCli([command, "--help"])).status, 0);
  }
});

/** Prints a YAML file as JSON. */
const YAML_TO_JSON = "import json, sys, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1]))))";

test("the compose file builds the Dockerfile, and keeps the data directory in a volume", async (t) => {
  if (!canRun(t, "python3", "-c", "import yaml")) return;
  const file = path.join(ROOT, "docs/compose.yaml");
  const { stdout } = await runToEnd(["python3", "-c", YAML_TO_JSON, file]);
  const { services, volumes } = JSON.parse(stdout);
  const { build, environment, volumes: mounts, ports } = services["plant-store"];
  assert.ok(existsSync(path.join(ROOT, "docs", build.context, build.dockerfile)));
  assert.match(readPage("docs/Dockerfile"), /STATE_DIRECTORY=\/home\/nonroot\/data/);
  assert.deepEqual(mounts, ["plants:/home/nonroot"]);
  assert.ok("plants" in volumes);
  assert.deepEqual(ports, ["127.0.0.1:8080:8080"]);
  assert.equal(environment.PLANT_STORE_ADMIN_HOST, "plant-store");
});

/** Prints every document of a YAML text, its argument, as JSON. */
const DOCUMENTS =
  "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(sys.argv[1]))))";

test("the manifest for Kubernetes fits the image and the options", async (t) => {
  if (!canRun(t, "python3", "-c", "import yaml")) return;
  const [manifest = ""] = codeBlocks("docs/kubernetes.md", "Run it", "yaml");
  const { stdout } = await runToEnd(["python3", "-c", DOCUMENTS, manifest]);
  const [service, { spec }] = JSON.parse(stdout);
  const { metadata, spec: pod } = spec.template;
  const [{ env, ports, volumeMounts, livenessProbe, readinessProbe }] = pod.containers;
  assert.deepEqual(service.spec.selector, metadata.labels);
  assert.deepEqual(spec.selector.matchLabels, metadata.labels);
  assert.equal(spec.serviceName, service.metadata.name);
  assert.deepEqual([spec.replicas, pod.enableServiceLinks], [1, false]);
  assert.deepEqual(ports, [{ containerPort: 8080 }, { containerPort: 9180 }]);
  const probed = [livenessProbe, readinessProbe].map(({ httpGet }) => httpGet);
  assert.deepEqual(probed, [
    { path: "/healthz", port: 9180 },
    { path: "/readyz", port: 9180 },
  ]);
  assert.match(
    readPage("docs/Dockerfile"),
    new RegExp(`^VOLUME ${volumeMounts[0].mountPath}$`, "m"),
  );
  assert.equal(volumeMounts[0].name, spec.volumeClaimTemplates[0].metadata.name);
  const variables = Object.fromEntries(
    env.map(({ name, value }: Record<"name" | "value", string>) => [name, value]),
  );
  const printed = await runCli(["serve", "--print-config"], { env: variables });
  assert.equal(printed.status, 0, printed.stderr);
  assert.match(printed.stdout, /^admin +0\.0\.0\.0:9180 /m);
  const grace = pod.terminationGracePeriodSeconds * 1000;
  assert.ok(grace > Number(variables.PLANT_STORE_DRAIN_DELAY_MS) + 10_000);
});

test("the drop-in for systemd sets options that serve takes", async () => {
  const [dropIn = ""] = codeBlocks("docs/systemd.md", "Options, port and memory", "ini");
  const pairs = Array.from(dropIn.matchAll(/^Environment=(\w+)=(.*)$/gm), ([, ...pair]) => pair);
  const { status, stdout, stderr } = await runCli(["serve", "--print-config"], {
    env: Object.fromEntries(pairs),
  });
  assert.equal(status, 0, stderr);
  assert.ok(pairs.length > 3, "they are found");
  for (const [name = "", value = ""] of pairs) {
    assert.ok(stdout.split("\n").some((row) => row.includes(` ${value} `) && row.endsWith(name)));
  }
});

test("every example in YAML can be parsed", async (t) => {
  if (!canRun(t, "python3", "-c", "import yaml")) return;
  const blocks = PAGES.flatMap(blocksOf).filter(({ language }) => language === "yaml");
  assert.ok(blocks.length > 3, "they are found");
  for (const { place, code } of blocks) {
    const { status } = await runToEnd(["python3", "-c", DOCUMENTS, code]);
    assert.equal(status, 0, place);
  }
});

test("the image takes a database by its variables, and else uses its folder", async (t) => {
  const folder = makeFolder(t);
  const env = imageVariables(folder);
  assert.ok(env.PLANT_STORE_ADMIN, "they are found");
  const { stdout } = await runCli(["serve", "--print-config"], { env });
  assert.match(stdout, new RegExp(`^data +${path.join(folder, "data")} +default$`, "m"));
  writeFileSync(path.join(folder, "url"), "postgresql://plants@127.0.0.1:1/garden");
  for (const more of [
    { PLANT_STORE_DATABASE: "postgresql://plants@127.0.0.1:1/garden" },
    { PLANT_STORE_DATABASE_FILE: path.join(folder, "url") },
  ]) {
    const { stderr } = await runCli(["export"], { env: { ...env, ...more } });
    assert.match(stderr, /npm install pg/); // which is not beside these sources
  }
});

test("a server with the variables of the container files is healthy by its command", async (t) => {
  const folder = makeFolder(t);
  const env = { PLANT_STORE_ADMIN: `0.0.0.0:${await freePort()}`, PLANT_STORE_HOST: "0.0.0.0" };
  await startServer(t, [], { cwd: folder, env });
  const { status, stderr } = await runCli(["health"], { cwd: folder, env });
  assert.equal(status, 0, stderr);
});
