/** pgbouncer in transaction mode before a server of a test: each transaction may get another session. */
import { spawn } from "node:child_process";
import { chownSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "../support/watch.ts";
import { type Cleanup, type Cluster, freePort, NEEDS_POSTGRES, USER } from "./cluster.ts";

const PROGRAM = ["/usr/sbin", ...(process.env.PATH ?? "").split(":")]
  .map((folder) => join(folder, "pgbouncer"))
  .find(existsSync);

/** Options of a test that needs the pooler, the server and the driver. */
export const NEEDS_POOLER: { readonly skip?: string } =
  PROGRAM === undefined ? { skip: "needs pgbouncer (Debian: pgbouncer)" } : NEEDS_POSTGRES;

/** Starts a pooler for these roles, and returns its port. */
export async function startPooler(
  cleanup: Cleanup,
  { folder: host, port: serverPort }: Pick<Cluster, "folder" | "port">,
  roles: readonly string[],
): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), "plant-pooler-"));
  const port = await freePort();
  const users = join(folder, "users");
  writeFileSync(users, roles.map((role) => `"${role}" ""\n`).join(""));
  const lines = [
    "[databases]",
    `* = host=${host} port=${serverPort}`,
    "[pgbouncer]",
    "listen_addr = 127.0.0.1",
    `listen_port = ${port}`,
    "unix_socket_dir =",
    "auth_type = trust",
    `auth_file = ${users}`,
    "pool_mode = transaction",
  ];
  const configuration = join(folder, "pgbouncer.ini");
  writeFileSync(configuration, `${lines.join("\n")}\n`);
  if (USER !== undefined) {
    for (const path of [folder, users, configuration]) chownSync(path, USER.uid, USER.gid);
  }
  const pooler = spawn(PROGRAM ?? "", [configuration], { ...USER, stdio: "ignore" });
  const ended = new Promise((resolve) => pooler.once("exit", resolve));
  cleanup.after(async () => {
    pooler.kill("SIGKILL");
    await ended;
    rmSync(folder, { recursive: true });
  });
  await until("the pooler answers", () => answers(port));
  return port;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1", () => resolve(true));
    socket.once("error", () => resolve(false));
    socket.once("close", () => resolve(false)).unref();
    socket.once("connect", () => socket.end());
  });
}
