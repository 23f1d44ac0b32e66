/** Where an attack takes place: the memory and the core of the server, and a network of its own. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { availableParallelism } from "node:os";
import type { TestContext } from "node:test";
import { makeCertificate } from "../support/certificates.ts";
import { readPage } from "../support/docs.ts";
import { type MemoryCgroup, makeMemoryCgroup } from "../support/memory-cgroup.ts";
import { installNode } from "../support/nodes.ts";
import { freePort } from "../support/serve.ts";
import type { MemoryLimit } from "./attacks.ts";

const DOCKERFILE = readPage("docs/Dockerfile");

export interface Sandbox {
  /** The Node.js of the server. */
  readonly node: string;
  /** The first words of commands. */
  readonly serverWords: readonly string[];
  readonly clientWords: readonly string[];
  readonly attackerWords: readonly string[];
  /** For the environment of the server. */
  readonly env: Readonly<Record<string, string>>;
  readonly serverArgs: readonly string[];
  readonly adminPort: number;
  readonly cgroup: MemoryCgroup | undefined;
  /** From now on connections are as narrow as those of a slow client: the system buffers little. */
  narrow(): void;
}

interface Memory {
  /** Of the container; default: none. */
  readonly mib?: number;
  readonly nodeOptions?: string;
  readonly isImage?: boolean;
}

const MEMORY_LIMITS: Readonly<Record<MemoryLimit, Memory>> = {
  image: { mib: 128, isImage: true, ...imageSettings() },
  "256 MiB": { mib: 256 },
  "512 MiB": { mib: 512 },
  "heap of 256 MB": { nodeOptions: "--max-old-space-size=256" },
};

export const MEMORY_LIMIT_NAMES = Object.keys(MEMORY_LIMITS) as MemoryLimit[];

function imageSettings(): Pick<Memory, "nodeOptions"> {
  const nodeOptions = /NODE_OPTIONS=(\S+)/.exec(DOCKERFILE)?.[1];
  return nodeOptions === undefined ? {} : { nodeOptions };
}

/** The Node.js of the image; `undefined` if npm cannot install it. */
function imageNode(): string | undefined {
  try {
    return installNode(/^FROM node:(\d+)/m.exec(DOCKERFILE)?.[1] ?? "");
  } catch {
    return undefined;
  }
}

/** The words that give a program one core; none, and a sentence, if that is not possible. */
function pin(t: TestContext, core: number): readonly string[] {
  if (availableParallelism() > 1 && spawnSync("taskset", ["-V"]).status === 0) {
    return ["taskset", "-c", String(core)];
  }
  if (core === 0)
    t.diagnostic("The server shares its core with its clients: this needs two cores and taskset.");
  return [];
}

interface Network {
  readonly words: readonly string[];
  narrow(): void;
}

/** A network of its own, so that its buffers can be changed; that of the machine if it is not permitted. */
async function makeNetwork(t: TestContext): Promise<Network> {
  const holder = spawn("unshare", ["--net", "sh", "-c", "ip link set lo up && echo up && cat"]);
  holder.on("error", () => {});
  t.after(() => holder.kill("SIGKILL"));
  const closed = once(holder, "close").catch(() => []);
  const [text] = await Promise.race([once(holder.stdout, "data"), closed]);
  if (String(text) !== "up\n") {
    t.diagnostic("The buffers of sockets are large: smaller ones need root, unshare and ip.");
    return { words: [], narrow: () => {} };
  }
  const words = ["nsenter", `--net=/proc/${holder.pid}/ns/net`];
  const buffers = "echo 4096 4096 4096 >/proc/sys/net/ipv4/tcp_rmem && ip link set lo mtu 1500";
  return {
    words,
    narrow: () => void spawnSync("nsenter", [...words.slice(1), "sh", "-c", buffers]),
  };
}

/** Makes the sandbox for one attack, until the test ends; a reason if this machine does not have it. */
export async function makeSandbox(
  t: TestContext,
  name: MemoryLimit,
  isTls: boolean,
): Promise<Sandbox | string> {
  const { mib, nodeOptions, isImage } = MEMORY_LIMITS[name];
  const node = isImage === true ? imageNode() : process.execPath;
  if (node === undefined) return "needs the Node.js of the image, which npm could not install";
  const cgroup = mib === undefined ? undefined : makeMemoryCgroup(t, mib * 2 ** 20);
  if (typeof cgroup === "string") return cgroup;
  const { words, narrow } = await makeNetwork(t);
  const clientWords = [...words, ...pin(t, 1)];
  const files = isTls ? makeCertificate(t, "victim") : undefined;
  return {
    node,
    serverWords: [...(cgroup?.wrapper ?? []), ...words, ...pin(t, 0)],
    clientWords,
    // The victims come first where both want the core.
    attackerWords: [...clientWords, "nice", "-n", "5"],
    env: nodeOptions === undefined ? {} : { NODE_OPTIONS: nodeOptions },
    serverArgs:
      files === undefined ? [] : ["--tls-cert", files.certPath, "--tls-key", files.keyPath],
    adminPort: await freePort(),
    cgroup,
    narrow,
  };
}
