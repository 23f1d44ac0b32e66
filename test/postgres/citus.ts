/** A Citus cluster for a test: a coordinator and two workers, each a server of its own. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { printSchema } from "../../src/postgres/schema.ts";
import { type Cleanup, Cluster, NEEDS_POSTGRES, PROGRAMS } from "./cluster.ts";

/** Options of a test that needs Citus. Debian has no package of it: build it from its source. */
export const NEEDS_CITUS: { readonly skip?: string } = hasCitus()
  ? NEEDS_POSTGRES
  : { skip: "needs Citus, built from its source for the PostgreSQL that the tests use" };

function hasCitus(): boolean {
  const config = join(PROGRAMS ?? "", "pg_config");
  if (!existsSync(config)) return false;
  const folder = execFileSync(config, ["--sharedir"], { encoding: "utf8" }).trim();
  return existsSync(join(folder, "extension", "citus.control"));
}

const SETTINGS = [
  "shared_preload_libraries = 'citus'",
  "max_prepared_transactions = 200",
  "citus.node_conninfo = 'sslmode=disable'",
];

export interface CitusCluster {
  readonly coordinator: Cluster;
  readonly workers: readonly Cluster[];
  /** Of the database `garden`, for its owner. */
  readonly ownerUrl: string;
}

/** Starts a cluster with the empty database `garden`. */
export async function startCitus(cleanup: Cleanup): Promise<CitusCluster> {
  const start = () => Cluster.start(cleanup, { settings: SETTINGS });
  const [coordinator, ...workers] = await Promise.all([start(), start(), start()]);
  for (const node of [coordinator, ...workers]) {
    await node.sql("CREATE DATABASE garden");
    await node.sql("CREATE EXTENSION citus", "garden");
  }
  const address = ({ port }: Cluster) => `'127.0.0.1', ${port}`;
  await coordinator.sql(`SELECT citus_set_coordinator_host(${address(coordinator)})`, "garden");
  for (const worker of workers) {
    await coordinator.sql(`SELECT citus_add_node(${address(worker)})`, "garden");
  }
  return { coordinator, workers, ownerUrl: coordinator.url("garden") };
}

/** Starts a cluster with the tables of the store; the URL is for the role of the servers. */
export async function startCitusStore(cleanup: Cleanup): Promise<CitusCluster & { url: string }> {
  const citus = await startCitus(cleanup);
  const { coordinator } = citus;
  await coordinator.sql("CREATE ROLE plant_store LOGIN PASSWORD 'secret'", "garden");
  await coordinator.sql(printSchema("citus"), "garden");
  return { ...citus, url: coordinator.url("garden", { user: "plant_store" }) };
}
