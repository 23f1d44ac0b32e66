/**
 * docs/database-setup.md, followed from its top: its files are written and its commands typed, on machines
 * that are folders here, from the certificates to the failover. A block that begins with a path is that file
 * on every machine; one that begins with "on NAME" is typed there. Hosts have ports of their own on this machine;
 * the programs of Debian and systemd that the commands use are replaced by small ones.
 */
import assert from "node:assert/strict";
import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { canRun } from "../faults/machine.ts";
import { type Block, blocksOf, readPage, typed } from "../support/docs.ts";
import { makeFolder } from "../support/folders.ts";
import { runToEnd } from "../support/run.ts";
import { freePort } from "../support/serve.ts";
import { HANG_MS, until } from "../support/watch.ts";
import { PROGRAMS, USER } from "./cluster.ts";
import { overHttp } from "./servers.ts";
import { buildProgram, NEEDS_POSTGRES } from "./stores.ts";

const PAGE = "docs/database-setup.md";
const DATABASES = ["db-a", "db-b", "db-c"];
const DATA = "/var/lib/postgresql/15/main";
const CONFIG = "/etc/postgresql/15/main";
const SECRET = "secret";
const OPTIONS = { ...NEEDS_POSTGRES, timeout: 5 * HANG_MS };

/** Programs of the machines. `$ROOT` is the folder of the machine. */
const REPLACED: Readonly<Record<string, string>> = {
  pg_ctlcluster: `set -- "$3"; case $1 in
      start|restart) set -- "$1" -o "-c config_file=$ROOT${CONFIG}/postgresql.conf";;
      kill) set -- stop -m immediate;;
    esac
    exec '${PROGRAMS}/pg_ctl' -s -D "$ROOT${DATA}" -l "$ROOT/var/lib/postgresql/log" "$@"`,
  // It asks a terminal for the password, or else reads it, twice.
  psql: `case "$*" in *'\\password '*) printf '%s\\n%s\\n' "$NEW" "$NEW" | setsid -w '${PROGRAMS}/psql' "$@";;
    *) exec '${PROGRAMS}/psql' "$@";; esac`,
  "systemd-sysusers": 'test -s "$ROOT/etc/sysusers.d/plant-store.conf"',
  chown: 'test "$1" = root:plant-store && test -f "$2"',
  // Starts the server with the variables of the unit, and returns when it listens.
  systemctl: `case $1 in
    daemon-reload) exit 0;;
    enable) . "$ROOT/start";;
    esac`,
};
const START = `env $(sed -n 's/^Environment=//p' "$ROOT"/etc/systemd/system/plant-store.service.d/*.conf) \\
  setsid plant-store serve --port "$PORT" > "$ROOT/log" 2>&1 &
echo $! > "$ROOT/pid"
until plant-store health --port "$PORT" || ! kill -0 $!; do sleep 0.1; done`;

/** The machines of the page. */
class Machines {
  readonly #folder: string;
  readonly #program = buildProgram();
  readonly #ports: Readonly<Record<string, number>>;

  private constructor(folder: string, ports: Record<string, number>) {
    this.#folder = folder;
    this.#ports = ports;
  }

  static async make(t: TestContext): Promise<Machines> {
    const folder = makeFolder(t);
    chmodSync(folder, 0o755);
    const ports: Record<string, number> = {};
    for (const name of [...DATABASES, "app-a", "admin"]) ports[name] = await freePort();
    const machines = new Machines(folder, ports);
    const [, owner = ""] = /`(\S+:garden_owner:PASSWORD)`/.exec(readPage(PAGE)) ?? [];
    mkdirSync(machines.file("app-a", ""));
    writeFileSync(machines.file("app-a", ".pgpass"), machines.adapt("app-a", owner), {
      mode: 0o600,
    });
    t.after(() => machines.#stop());
    for (const name of DATABASES) await machines.#makeDatabaseHost(name);
    return machines;
  }

  /** A file of a machine. */
  file(machine: string, name: string): string {
    return path.join(this.#folder, machine, name);
  }

  get url(): string {
    return `http://127.0.0.1:${this.#ports["app-a"]}`;
  }

  /** Runs commands as they are typed there; returns what they print. */
  async type(machine: string, code: string, { secret = SECRET } = {}): Promise<string> {
    const root = this.file(machine, "");
    const isDatabase = DATABASES.includes(machine);
    const env = {
      PATH: `${this.#makePrograms(root)}:${process.env.PATH}`,
      ROOT: root,
      HOME: isDatabase ? this.file(machine, "/var/lib/postgresql") : root,
      PGHOST: root,
      PGPORT: String(this.#ports[machine]),
      PORT: String(this.#ports[machine]),
      NEW: secret,
    };
    const options = { cwd: root, env, ...(isDatabase ? USER : {}) };
    const done = await runToEnd(typed(this.adapt(machine, code)), options);
    assert.equal(done.status, 0, `${code}${done.stdout}${done.stderr}${this.#logOf(machine)}`);
    assert.doesNotMatch(done.stderr, /WARNING:/, code);
    return done.stdout;
  }

  /** Writes a file whose first line is its name, on the machines that have such files. */
  write(block: string): void {
    const [, name = "", text = ""] = /^# (\S+)\n([\s\S]*)$/.exec(block) ?? [];
    for (const machine of /postgresql/.test(name) ? DATABASES : ["app-a"]) {
      const file = this.file(machine, name);
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, this.adapt(machine, text), { mode: 0o600 });
      if (USER !== undefined && machine !== "app-a") chownSync(file, USER.uid, USER.gid);
    }
  }

  /** A text with the addresses, ports, paths and the password that there are here. */
  adapt(machine: string, text: string): string {
    const local = text
      .replaceAll("DNS:$host.example", "DNS:localhost")
      .replaceAll(
        /\bhost=(db-.)\.example/g,
        (_, host) => `host=localhost port=${this.#ports[host]}`,
      )
      .replaceAll(/\b(db-.)\.example/g, (_, host) => `localhost:${this.#ports[host]}`)
      .replaceAll("10.0.0.21:9180", `127.0.0.1:${this.#ports.admin}`)
      .replaceAll("10.0.0.0/24", "samehost")
      .replaceAll("listen_addresses = '*'", "listen_addresses = 'localhost'")
      .replaceAll("peer", "trust")
      .replaceAll(/(?<!-)PASSWORD/g, SECRET)
      .replaceAll("NEW-PASSWORD", "changed");
    return local.replaceAll(/(?<![\w/.])\/(?:etc|var\/lib)\//g, (found) =>
      this.file(machine, found),
    );
  }

  /** What Debian has made when PostgreSQL is installed, and the machine's part of the certificates. */
  async #makeDatabaseHost(machine: string): Promise<void> {
    const home = this.file(machine, "/var/lib/postgresql");
    const config = this.file(machine, CONFIG);
    mkdirSync(path.join(config, "conf.d"), { recursive: true });
    mkdirSync(home, { recursive: true });
    if (USER !== undefined) await runToEnd(["chown", "-R", `${USER.uid}`, this.file(machine, "")]);
    const words = [`${PROGRAMS}/initdb`, "-D", `${home}/15/main`, "-U", "postgres", "--no-sync"];
    const made = await runToEnd(words, { cwd: home, ...USER });
    assert.equal(made.status, 0, made.stderr);
    // Debian has this file outside the data directory, where no base backup copies it.
    const own = path.join(config, "postgresql.conf");
    const lines = [
      `port = ${this.#ports[machine]}`,
      `unix_socket_directories = '${this.file(machine, "")}'`,
      `hba_file = '${config}/pg_hba.conf'`,
      "shared_buffers = 32MB",
      "fsync = on",
      "cluster_name = '15/main'",
      `include_dir = '${config}/conf.d'`,
    ];
    writeFileSync(own, `data_directory = '${home}/15/main'\n${lines.join("\n")}\n`, {
      mode: 0o644,
    });
    writeFileSync(path.join(config, "pg_hba.conf"), "local all postgres trust\n", { mode: 0o644 });
    await this.type(machine, "pg_ctlcluster 15 main start");
  }

  /** Puts the certificates where the page says. */
  async copyCertificates(from: string): Promise<void> {
    for (const machine of [...DATABASES, "app-a"]) {
      const copies = [["ca.pem", "/etc/plant-store/ca.pem"]];
      if (machine !== "app-a") {
        copies.push(
          [`${machine}.pem`, `${CONFIG}/server.pem`],
          [`${machine}.key`, `${CONFIG}/server.key`],
        );
      }
      for (const [name = "", there = ""] of copies) {
        const file = this.file(machine, there);
        mkdirSync(path.dirname(file), { recursive: true });
        writeFileSync(file, readFileSync(this.file(from, name)), {
          mode: name === "ca.pem" ? 0o644 : 0o600,
        });
        if (USER !== undefined && machine !== "app-a") chownSync(file, USER.uid, USER.gid);
      }
    }
  }

  #makePrograms(root: string): string {
    const bin = path.join(root, "bin");
    mkdirSync(bin, { recursive: true });
    const store = `exec '${process.execPath}' '${this.#program}' "$@"`;
    for (const [name, script] of Object.entries({ ...REPLACED, "plant-store": store })) {
      writeFileSync(path.join(bin, name), `#!/bin/bash\n${script}\n`, { mode: 0o755 });
    }
    writeFileSync(path.join(root, "start"), START);
    return bin;
  }

  #logOf(machine: string): string {
    const file = this.file(
      machine,
      DATABASES.includes(machine) ? "/var/lib/postgresql/log" : "log",
    );
    return existsSync(file) ? readFileSync(file, "utf8").slice(-2000) : "";
  }

  async #stop(): Promise<void> {
    const pid = this.file("app-a", "pid");
    if (existsSync(pid)) process.kill(Number(readFileSync(pid, "utf8")), "SIGKILL");
    for (const machine of DATABASES) {
      await this.type(machine, "pg_ctlcluster 15 main stop || true");
    }
  }
}

/** `# on db-b, as postgres; on db-c with application_name=c`: where a block is typed, and what differs there. */
const HEAD = /^# on (.+?), as [\w ]+(?:; (?:also )?on (.+?)(?: with (\w+)=(\w+))?)?$/m;

/** What is typed for a block: the machine and the commands. */
function stepsOf({ code, place }: Block): readonly (readonly [machine: string, code: string])[] {
  const [head, first = "", others = "", variable, value] = HEAD.exec(code) ?? [];
  assert.ok(head, `${place}: the block says where it is typed`);
  const machine = first.startsWith("a machine") ? "app-a" : first;
  const changed = code.replace(new RegExp(`\\b${variable}=\\w+`), `${variable}=${value}`);
  const rest = others.split(" and ").filter((name) => DATABASES.includes(name));
  return [[machine, code], ...rest.map((name) => [name, changed] as const)];
}

/** The blocks to follow, in order: those of the balancers and of Patroni are judged by other tests. */
const BLOCKS = blocksOf(PAGE).filter(({ language }) => ["sh", "text", "ini"].includes(language));

async function create(machines: Machines, token: string, id: bigint): Promise<void> {
  const store = overHttp(machines.url, token);
  await until("a plant is created", () =>
    store.create({ id, name: "Fern" }).then(Boolean, () => false),
  );
}

test("a service is set up and its primary replaced as the page says", OPTIONS, async (t) => {
  if (!canRun(t, "openssl", "version") || !canRun(t, "setsid", "--version")) return;
  const machines = await Machines.make(t);
  let token = "";
  for (const [at, block] of BLOCKS.entries()) {
    const isFirst = BLOCKS[at - 1]?.section !== block.section;
    if (isFirst && block.section === "Configure PostgreSQL")
      await machines.copyCertificates("app-a");
    if (isFirst && block.section === "Fail over by hand") {
      await create(machines, token, 1n);
      await machines.type("db-a", "pg_ctlcluster 15 main kill");
    }
    if (block.language !== "sh") machines.write(block.code);
    else {
      const secret = block.section === "Change a password" ? "changed" : SECRET;
      for (const [machine, code] of stepsOf(block)) {
        token = /^pst_\S+$/m.exec(await machines.type(machine, code, { secret }))?.[0] ?? token;
      }
    }
  }
  await create(machines, token, 2n);
  const names = await machines.type(
    "app-a",
    `plant-store list --database-file /etc/plant-store/url`,
  );
  assert.equal(names, '{"id":1,"name":"Fern"}\n{"id":2,"name":"Fern"}\n');
});
