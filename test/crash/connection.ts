/** One keep-alive connection to a server that may be killed at any moment. */
import { once } from "node:events";
import net from "node:net";

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** A running server answers long before this. */
const ANSWER_TIMEOUT_MS = 20_000;

export class Connection {
  readonly #socket: net.Socket;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** The length of the answer; known once its head has arrived. */
  #expected = Number.POSITIVE_INFINITY;
  #settle: (answer: Answer | undefined) => void = () => {};
  /** Whether an answer did not come in time. */
  hasTimedOut = false;

  private constructor(socket: net.Socket) {
    this.#socket = socket;
    socket.setTimeout(ANSWER_TIMEOUT_MS, () => {
      this.hasTimedOut = true;
      socket.destroy();
    });
    socket.on("data", (chunk: Buffer) => this.#receive(chunk));
    socket.on("error", () => {}); // "close" follows
    socket.on("close", () => this.#settle(undefined));
    socket.on("end", () => socket.destroy());
  }

  /** `undefined` if no server listens. */
  static async open(port: number): Promise<Connection | undefined> {
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
    try {
      await once(socket, "connect");
      return new Connection(socket);
    } catch {
      return undefined;
    }
  }

  /** Sends a create; `undefined` when the connection ended before the answer was whole. */
  post(token: string, body: string): Promise<Answer | undefined> {
    const length = Buffer.byteLength(body);
    const headers = `Content-Type: application/json\r\nContent-Length: ${length}\r\n`;
    if (this.#socket.destroyed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#socket.write(
        `POST /plants HTTP/1.1\r\nHost: crash\r\nAuthorization: Bearer ${token}\r\n${headers}\r\n${body}`,
      );
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #receive(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    if (this.#expected === Number.POSITIVE_INFINITY) this.#expected = answerBytes(this.#joined());
    if (this.#bytes < this.#expected) return;
    const received = this.#joined();
    this.#chunks = [];
    this.#bytes = 0;
    this.#expected = Number.POSITIVE_INFINITY;
    this.#settle({
      status: Number(received.toString("latin1", 9, 12)),
      text: received.toString("utf8", received.indexOf("\r\n\r\n") + 4),
    });
  }

  #joined(): Buffer {
    const [first] = this.#chunks;
    if (first !== undefined && this.#chunks.length === 1) return first;
    const joined = Buffer.concat(this.#chunks);
    this.#chunks = [joined];
    return joined;
  }
}

function answerBytes(received: Buffer): number {
  const headEnd = received.indexOf("\r\n\r\n");
  if (headEnd < 0) return Number.POSITIVE_INFINITY;
  const head = received.toString("latin1", 0, headEnd);
  return headEnd + 4 + Number(/\r\nContent-Length: ([0-9]+)/i.exec(head)?.[1] ?? 0);
}
