/** Many connections to a server in a process of its own, and the memory that it holds for them. */
import { once } from "node:events";
import { existsSync, readFileSync, rmSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { createToken } from "../../src/index.ts";
import { processorTicks } from "../faults/machine.ts";
import { Trial } from "../faults/trial.ts";
import { encodeRequest } from "./contract.ts";
import { makeFolder } from "./folders.ts";
import { writeLog } from "./stores.ts";
import { until } from "./watch.ts";

/** So long that no request of a crowd whose headers are complete ends by a timeout. */
const PATIENT = ["--request-timeout-ms=600000"];
const HEAP_MIB = 256;
const AT_A_TIME = 100;
/** So many that together they are longer than the buffers of the sockets. */
const PLANTS = 20_000;
const NAME = "n".repeat(1000);
const HEAD_BYTES = 16 * 1024 - 400;

function headers(count: number, valueBytes: number): Record<string, string> {
  const name = (at: number) => `h${at}`;
  return Object.fromEntries(
    Array.from({ length: count }, (_, at) => [name(at), "x".repeat(valueBytes)]),
  );
}

const LARGE = headers(94, Math.floor(HEAD_BYTES / 94) - 8);

const TINY = { a: Array<string>(2300).fill("") };

export type Shape =
  | "tiny headers"
  | "large headers"
  | "creates"
  | "trailers"
  | "streams"
  | "streams and tiny headers";

/** The bytes that each connection of a crowd sends; the server never finishes answering them. */
export function bytesOf(shape: Shape, target: { readonly token: string }): Buffer {
  const unfinished = (fields: Record<string, string | readonly string[]>) =>
    encodeRequest(target, { headers: fields }).subarray(0, -2);
  switch (shape) {
    case "tiny headers":
      return unfinished({ a: Array<string>(3000).fill("") }).subarray(0, HEAD_BYTES);
    case "large headers":
      return unfinished(LARGE);
    case "creates":
      return encodeRequest(target, { headers: LARGE, body: '{"id":1}' }).subarray(0, -1);
    case "trailers": {
      const headers = { ...LARGE, "Transfer-Encoding": "chunked" };
      const begun = encodeRequest(target, { headers, body: '8\r\n{"id":1}\r\n0\r\n' });
      const trailer = Object.entries(LARGE).map(([name, value]) => `${name}: ${value}\r\n`);
      return Buffer.concat([begun, Buffer.from(trailer.join(""))]);
    }
    case "streams":
    case "streams and tiny headers": {
      const stream = { method: "GET", headers: { Accept: "application/x-ndjson" } };
      const headers = shape === "streams" ? LARGE : TINY;
      const get = { method: "GET", target: "/plants/1", headers };
      const gets = Array.from({ length: 10 }, () => encodeRequest(target, get));
      return Buffer.concat([encodeRequest(target, stream), ...gets]);
    }
  }
}

function readUpTo(socket: net.Socket, bytes: number): void {
  socket.on("data", () => {
    if (socket.bytesRead >= bytes) socket.pause();
  });
}

export class Crowd {
  readonly trial: Trial;
  readonly #file: string;
  readonly #t: TestContext;

  private constructor(t: TestContext, trial: Trial, file: string) {
    this.#t = t;
    this.trial = trial;
    this.#file = file;
  }

  /** Starts a server with a small heap, and plants to read. */
  static async start(t: TestContext): Promise<Crowd> {
    const folder = makeFolder(t);
    const file = join(folder, "memory");
    const lines = Array.from({ length: PLANTS }, (_, id) => `{"id":${id},"name":"${NAME}"}\n`);
    writeLog(folder, lines.join(""));
    const reuseToken = await createToken(folder, { name: "crowd", scopes: ["read", "write"] });
    const probe = new URL("./memory-probe.mjs", import.meta.url);
    const env = {
      NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB} --import ${probe}`,
      MEMORY_FILE: file,
    };
    return new Crowd(t, await Trial.start(t, { folder, reuseToken, args: PATIENT, env }), file);
  }

  /** The bytes of objects and buffers in the server, without garbage. */
  async usedBytes(): Promise<number> {
    rmSync(this.#file, { force: true });
    process.kill(this.trial.pid, "SIGUSR2");
    const read = () => (existsSync(this.#file) ? readFileSync(this.#file, "utf8") : "");
    await until("the server has measured its memory", () => read().endsWith("\n"));
    return Number(read());
  }

  /**
   * Opens connections that all send these bytes; resolves when the server is idle.
   *
   * @param readBytes how much each connection reads.
   */
  async connect(bytes: Buffer, count: number, readBytes = 0): Promise<void> {
    const { port } = this.trial.server;
    for (let left = count; left > 0; left -= AT_A_TIME) {
      const sockets = Array.from({ length: Math.min(left, AT_A_TIME) }, () => {
        const socket = net.connect(port, "127.0.0.1").on("error", () => {});
        this.#t.after(() => socket.destroy());
        if (readBytes === 0) socket.pause();
        else readUpTo(socket, readBytes);
        socket.write(bytes);
        return socket;
      });
      await Promise.all(sockets.map((socket) => once(socket, "connect")));
    }
    await this.waitUntilIdle();
  }

  /** Waits until the server is idle for longer than two of its checks for slow connections. */
  async waitUntilIdle(): Promise<void> {
    let before = -1;
    let same = 0;
    while (same < 12) {
      await new Promise((resolve) => setTimeout(resolve, 200));
      const now = processorTicks(this.trial.pid);
      same = now - before <= 2 ? same + 1 : 0;
      before = now;
    }
  }
}
