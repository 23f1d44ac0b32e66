/** A connection that a test drives step by step, for more than one request and one answer. */
import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";
import { parseAnswer, parseAnswers, type RawAnswer } from "./raw.ts";
import { HANG_MS } from "./watch.ts";

export class Client {
  readonly #socket: net.Socket;
  #received = Buffer.alloc(0);
  /** The end of the answers that were returned. */
  #taken = 0;
  #failure: Error | undefined;
  #notify: () => void = () => {};

  private constructor(socket: net.Socket) {
    this.#socket = socket;
    socket.setTimeout(HANG_MS, () => socket.destroy(new Error(`silent for ${HANG_MS} ms`)));
    socket.on("data", (chunk: Buffer) => {
      this.#received = Buffer.concat([this.#received, chunk]);
      this.#notify();
    });
    socket.on("error", (error) => {
      this.#failure = error;
    });
    for (const event of ["end", "close"]) socket.on(event, () => this.#notify());
  }

  static async connect(port: number): Promise<Client> {
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
    await once(socket, "connect");
    return new Client(socket);
  }

  /** The same over TLS; only this certificate is trusted. */
  static async connectSecurely(port: number, ca: Buffer): Promise<Client> {
    const socket = tls.connect({ port, host: "127.0.0.1", ca, ALPNProtocols: ["http/1.1"] });
    socket.setNoDelay(true);
    await once(socket, "secureConnect");
    return new Client(socket);
  }

  /** The common name in the server's certificate. */
  get peerName(): string | undefined {
    if (!(this.#socket instanceof tls.TLSSocket)) return undefined;
    return this.#socket.getPeerX509Certificate()?.subject.replace(/^CN=/, "");
  }

  /** Whether the server has closed its side, or the connection is gone. */
  get isClosed(): boolean {
    return this.#socket.readableEnded || this.#socket.destroyed;
  }

  /** Whether the connection is gone, no matter which side closed it. */
  get isGone(): boolean {
    return this.#socket.destroyed;
  }

  /** Everything the server has sent, as text. */
  get text(): string {
    return this.#received.toString("latin1");
  }

  /** Sends the parts, each in a packet of its own. Stops when the connection is gone. */
  async send(...parts: readonly (string | Buffer)[]): Promise<void> {
    for (const part of parts) {
      if (this.#socket.destroyed) return;
      // A turn of the event loop lets the server, in this process, read the packet alone.
      await new Promise<void>((resolve) => this.#socket.write(part, () => setImmediate(resolve)));
    }
  }

  /** The next answer, interim ones (1xx) included. @param isHead whether it is to HEAD. */
  async next(isHead = false): Promise<RawAnswer> {
    const find = () => parseAnswer(this.#received, this.#taken, isHead);
    const { answer, end } = await this.#wait(find);
    this.#taken = end;
    return answer;
  }

  /** Waits for the server to close, and returns the remaining answers. A reset is a failure. */
  async rest(): Promise<RawAnswer[]> {
    while (!this.isClosed) await this.#change();
    if (this.#failure !== undefined) throw this.#failure;
    return parseAnswers(this.#received, this.#taken);
  }

  /** Closes the sending side, and continues to read. */
  halfClose(): void {
    this.#socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  /** Resets the connection, as happens when a client is killed with unread answers. */
  reset(): void {
    this.#socket.resetAndDestroy();
  }

  async #wait<T>(find: () => T | undefined): Promise<T> {
    for (;;) {
      const found = find();
      if (found !== undefined) return found;
      if (this.isClosed) throw this.#failure ?? new Error(`the server closed after "${this.text}"`);
      await this.#change();
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#notify = resolve;
    });
  }
}

/** Sends bytes on a connection of their own, and reads so many answers, or all until the server closes. */
export async function sendRaw(port: number, bytes: string | Buffer, count?: number) {
  const client = await Client.connect(port);
  try {
    await client.send(bytes);
    if (count === undefined) return await client.rest();
    const answers: RawAnswer[] = [];
    while (answers.length < count) answers.push(await client.next());
    return answers;
  } finally {
    client.destroy();
  }
}
