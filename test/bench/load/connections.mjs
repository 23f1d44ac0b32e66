/**
 * Raw keep-alive sockets to one server, one request in flight on each: a create
 * with an id of its own, or a repeat or a read of a plant at random. Waits for the
 * requests in flight before it counts, so its count is exact.
 */
import { once } from "node:events";
import net from "node:net";

const TAIL = ',"name":"Monstera deliciosa","tag":"tropical"}';
const BODY_BYTES = '{"id":'.length + 16 + TAIL.length;

export class Connections {
  #sockets = [];
  #port;
  #head;
  #rest;
  #nextId;
  #result;
  #inFlight = 0;
  #end = 0;
  #finish = () => {};
  #isClosing = false;

  /**
   * @param server its port, its token and an id of 16 digits. Creates take the ids from there on; a
   * look-up (`kind` "repeat" or "get") takes one of the `ids` plants from there on.
   */
  constructor({ port, token, firstId, kind = "create", ids }) {
    this.#port = port;
    let next = firstId;
    const random = () => firstId + Math.floor(Math.random() * ids);
    this.#nextId = kind === "create" ? () => next++ : random;
    const common = ` HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nAuthorization: Bearer ${token}\r\n`;
    const body = `Content-Type: application/json\r\nContent-Length: ${BODY_BYTES}\r\n\r\n{"id":`;
    this.#head = kind === "get" ? "GET /plants/" : `POST /plants${common}${body}`;
    this.#rest = kind === "get" ? `${common}\r\n` : TAIL;
  }

  async open(count) {
    for (let opened = 0; opened < count; opened++) {
      const socket = net.connect(this.#port, "127.0.0.1").setNoDelay(true).setEncoding("latin1");
      await once(socket, "connect");
      this.#listen(socket);
      this.#sockets.push(socket);
    }
  }

  close() {
    this.#isClosing = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Sends for so long, in milliseconds, and waits for the last answer. Latencies in microseconds. */
  async run(ms) {
    const start = performance.now();
    this.#end = start + ms;
    this.#result = { latencies: [], failures: 0 };
    const finished = new Promise((resolve) => {
      this.#finish = resolve;
    });
    for (const socket of this.#sockets) this.#send(socket);
    await finished;
    return { ...this.#result, us: (performance.now() - start) * 1000 };
  }

  #send(socket) {
    this.#inFlight++;
    socket.sentAt = performance.now();
    socket.write(`${this.#head}${this.#nextId()}${this.#rest}`);
  }

  #listen(socket) {
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk;
      if (!isWhole(text)) return;
      const now = performance.now();
      if (text.startsWith("HTTP/1.1 200 "))
        this.#result.latencies.push((now - socket.sentAt) * 1000);
      else this.#result.failures++;
      text = "";
      this.#inFlight--;
      if (now < this.#end) this.#send(socket);
      else if (this.#inFlight === 0) this.#finish();
    });
    socket.on("error", (error) => {
      throw error;
    });
    socket.on("close", () => {
      if (!this.#isClosing) throw new Error("the server has closed a connection");
    });
  }
}

/** Whether the text is all of an answer. @throws Error if its head has no length. */
function isWhole(text) {
  const bodyStart = text.indexOf("\r\n\r\n") + 4;
  if (bodyStart < 4) return false;
  const head = text.slice(0, bodyStart);
  const length = /\r\ncontent-length: *([0-9]+)/i.exec(head)?.[1];
  if (length === undefined) throw new Error(`expected an answer with Content-Length, got\n${head}`);
  return text.length >= bodyStart + Number(length);
}
