/** Two servers over a database, and a balancer that is set up as docs/database-setup.md says. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { createToken } from "../../src/postgres/index.ts";
import { canRun } from "../faults/machine.ts";
import { makeCertificate } from "../support/certificates.ts";
import { codeBlocks } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { runToEnd } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { Cluster } from "./cluster.ts";
import { collect } from "./conformance.ts";
import { compare, Load } from "./load.ts";
import { overHttp, startServer } from "./servers.ts";
import { buildProgram, NEEDS_POSTGRES, openPlants } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const PAGE = "docs/database-setup.md";
const PROGRAM = buildProgram();
/** What the balancer answers by itself. */
const AWAY = 50300;

interface Ports {
  readonly own: number;
  readonly servers: readonly [number, number];
  readonly admins: readonly [number, number];
}

/** Starts a balancer from its file of the page. */
type Start = (t: TestContext, ports: Ports) => Promise<readonly string[]>;

process.env.NODE_TLS_REJECT_UNAUTHORIZED = "0"; // the certificate of the balancer is self-signed

const startHaproxy: Start = async (t, { own, servers, admins }) => {
  const folder = makeFolder(t);
  const { cert, key } = makeCertificate(t, "balancer");
  const both = path.join(folder, "plants.pem");
  writeFileSync(both, `${cert}${key}`);
  const [block = ""] = codeBlocks(PAGE, "HAProxy", "haproxy");
  const page = block.replace("/etc/haproxy/plants.pem", both);
  let text = page
    .replace(/^ {4}(?:log \/dev|user|group) .*\n/gm, "")
    .replace(":443", `127.0.0.1:${own}`);
  for (const at of [0, 1] as const) {
    text = text.replace(`10.0.0.2${at + 1}:8080`, `127.0.0.1:${servers[at]} port ${admins[at]}`);
  }
  const file = path.join(folder, "haproxy.cfg");
  for (const each of [page, text]) {
    writeFileSync(file, each);
    const { status, stderr } = await runToEnd(["haproxy", "-c", "-f", file]);
    assert.equal(status, 0, stderr);
  }
  return ["haproxy", "-db", "-f", file];
};

const startNginx: Start = async (t, { own, servers }) => {
  const folder = makeFolder(t);
  const { certPath, keyPath } = makeCertificate(t, "balancer");
  const [page = ""] = codeBlocks(PAGE, "nginx", "nginx");
  const site = page
    .replace("10.0.0.21:8080", `127.0.0.1:${servers[0]}`)
    .replace("10.0.0.22:8080", `127.0.0.1:${servers[1]}`)
    .replace("/etc/nginx/plants.pem", certPath)
    .replace("/etc/nginx/plants.key", keyPath)
    .replace("listen 443 ssl;", `listen 127.0.0.1:${own} ssl;`);
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  const places = temporary.map((name) => `${name}_temp_path ${folder}/${name};`).join("\n");
  const file = path.join(folder, "nginx.conf");
  const rest = `daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log; events {}`;
  writeFileSync(file, `${rest}\nhttp { access_log off; ${places} ${site} }`);
  return ["nginx", "-c", file, "-p", folder, "-e", `${folder}/error.log`];
};

/**
 * Sends a plant; resolves with the status, the type and the error number of the answer. Each has a
 * connection of its own, because HAProxy closes one on which it has answered before the end of a body.
 */
async function send(url: string, token: string, body = '{"id":-1,"name":"Fern"}') {
  const headers = {
    authorization: `Bearer ${token}`,
    "content-type": "application/json",
    connection: "close",
  };
  const answer = await fetch(`${url}/plants`, { method: "POST", headers, body });
  const { error } = (await answer.json()) as { error?: number };
  return { status: answer.status, type: answer.headers.get("content-type"), error };
}

async function start(t: TestContext, startBalancer: Start) {
  const cluster = await Cluster.start(t);
  await cluster.createStore("garden");
  const operator = await openPlants(t, { url: cluster.url("garden") });
  const token = await createToken(operator, { name: "app" });
  const ports = [];
  for (let at = 0; at < 5; at++) ports.push(await freePort());
  const [own = 0, a = 0, b = 0, c = 0, d = 0] = ports;
  const url = cluster.url("garden", { user: "plant_store" });
  const serve = (port: number, admin: number) => {
    const words = ["--port", String(port), "--admin", `127.0.0.1:${admin}`, "--database", url];
    return startServer(t, [process.execPath, PROGRAM, "serve", ...words]);
  };
  const servers = [await serve(a, c), await serve(b, d)];
  const [program = "", ...args] = await startBalancer(t, {
    own,
    servers: [a, b],
    admins: [c, d],
  });
  const balancer = spawn(program, args, { stdio: "ignore" });
  t.after(() => balancer.kill("SIGKILL"));
  const through = `https://127.0.0.1:${own}`;
  await until("the balancer passes requests on", () =>
    send(through, token).then(
      ({ status }) => status === 200,
      () => false,
    ),
  );
  return { cluster, operator, token, servers, through };
}

const BALANCERS = { haproxy: startHaproxy, nginx: startNginx };

for (const [name, startBalancer] of Object.entries(BALANCERS)) {
  test(
    `with ${name} no client notices that a server is killed, and its own answers are JSON`,
    OPTIONS,
    async (t) => {
      if (!canRun(t, name, "-v")) return;
      const { operator, token, servers, through } = await start(t, startBalancer);
      const load = new Load([overHttp(through, token)], 24);
      await load.more(300);
      await servers[0]?.stop("SIGKILL");
      await load.more(300);
      const report = await load.stop();
      assert.equal(report.failed, 0);
      const found = compare(report, await collect(operator.list()));
      assert.deepEqual(found, { lost: 0, changed: 0, wrong: 0 });
      const long = JSON.stringify({ id: 1, name: "x".repeat(1.5 * 1024 * 1024) });
      // HAProxy may close the connection while the rest of the plant is sent.
      await until("a plant that is too long is refused", async () => {
        return (await send(through, token, long).catch(() => undefined))?.error === 41301;
      });
      await servers[1]?.stop("SIGKILL");
      for (let time = 0; time < 3; time++) {
        const type = "application/json";
        assert.deepEqual(await send(through, token), { status: 503, type, error: AWAY });
      }
    },
  );

  test(`${name} passes on that the database is away`, OPTIONS, async (t) => {
    if (!canRun(t, name, "-v")) return;
    const { cluster, through } = await start(t, startBalancer);
    await cluster.stop("immediate");
    await until("no token is known any more", async () => {
      const { error } = await send(through, "unknown");
      return error === 50306;
    });
  });
}
