/**
 * What one client may try against the others: each attack is a row of this table, which `attack` carries out.
 * `one-client.attack.ts` checks what other clients notice.
 */
import { once } from "node:events";
import net from "node:net";
import { encodeRequest } from "../support/contract.ts";

/** What an attacker knows of the server. */
export interface Target {
  readonly port: number;
  readonly adminPort: number;
  /** A token with the scope `write`, and one with the scope `read`. */
  readonly writer: string;
  readonly reader: string;
}

export interface Attack {
  readonly name: string;
  readonly by: "a read token" | "a write token" | "no token" | "a local user";
  readonly connections: number;
  /** The bytes of the request with this number. */
  send(target: Target, count: number): Buffer;
  /** How many requests a connection sends before it has a response. */
  readonly ahead: number;
  /** What happens to the responses; each one that is "read" is followed by another request. */
  readonly responses: "read" | "read slowly" | "discarded" | "never read" | "not waited for";
}

const MIB = 2 ** 20;

/** The id of a plant that the server has, with a name that is 1 MiB long. */
export const LONG_ID = -1;
export const LONG_NAME = "a".repeat(MIB - 200);

/** The server has so many short plants, with the ids from 0 on. */
export const SHORT_PLANTS = 60_000;
/** The first id of plants that attackers create. */
const FIRST_ID = 2_000_000_000;

function read(token: string, target: string, headers = {}, method = "GET"): Buffer {
  const bodiless = { "Content-Type": undefined, "Content-Length": undefined, ...headers };
  return encodeRequest({ token }, { method, target, headers: bodiless });
}

const create = (token: string, body: string | Buffer) => encodeRequest({ token }, { body });

/** These in turn, each made only once. */
function inTurn(...makes: readonly ((target: Target) => Buffer)[]): Attack["send"] {
  const made: Buffer[] = [];
  return (target, count) => {
    const at = count % makes.length;
    const bytes = made[at] ?? (makes[at]?.(target) as Buffer);
    made[at] = bytes;
    return bytes;
  };
}

/** A body of 1 MiB that begins so, and goes on with a text that repeats. */
const filled = ({ writer }: Target, begin: string, text: string) =>
  create(writer, (begin + text.repeat(MIB)).slice(0, MIB));

const longTail = `,"name":"${LONG_NAME}"}`;

const inBytes = (token: string, method: string, headers = {}) =>
  encodeRequest(
    { token },
    {
      method,
      headers: { "Transfer-Encoding": "chunked", ...headers },
      body: "1\r\na\r\n".repeat(MIB / 2),
    },
  );

const unknown = Buffer.from("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
const metrics = Buffer.from("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
const NDJSON = { Accept: "application/x-ndjson" };

/** A row of the table. */
function row(
  by: Attack["by"],
  name: string,
  connections: number,
  responses: Attack["responses"],
  send: Attack["send"],
  ahead = 1,
): Attack {
  return { by, name, connections, responses, send, ahead };
}

const READER = "a read token";
const WRITER = "a write token";
const NOBODY = "no token";
const NOTHING = () => Buffer.alloc(0);
const LONG = `/plants/${LONG_ID}`;
const longRead = ({ reader }: Target) => read(reader, LONG);
const list = ({ reader }: Target) => read(reader, "/plants?limit=1000");
const stream = inTurn(({ reader }) => read(reader, "/plants", NDJSON));

export const ATTACKS: readonly Attack[] = [
  row(
    READER,
    "GET and HEAD of a plant of 1 MiB, and HEAD of pages of 1,000 plants",
    12,
    "read",
    inTurn(
      longRead,
      ({ reader }) => read(reader, LONG, {}, "HEAD"),
      ({ reader }) => read(reader, "/plants?limit=1000", {}, "HEAD"),
    ),
    10,
  ),
  row(READER, "reads of 1 MiB that nobody waits for", 16, "not waited for", inTurn(longRead), 16),
  row(
    READER,
    "reads with a body in chunks of one byte",
    80,
    "discarded",
    inTurn(({ reader }) => inBytes(reader, "GET", NDJSON)),
  ),
  row(
    READER,
    "pipelined reads and lists, 600 ahead",
    8,
    "read",
    inTurn(({ reader }) => read(reader, "/plants/7"), list),
    600,
  ),
  row(READER, "CONNECT after pipelined requests", 64, "discarded", (target) =>
    Buffer.concat([
      ...Array<Buffer>(15).fill(list(target)),
      read(target.reader, "a:1", {}, "CONNECT"),
    ]),
  ),
  row(READER, "140 streams that are read slowly", 140, "read slowly", stream),
  row(READER, "GET of 1 MiB, responses never read", 300, "never read", inTurn(longRead), 10),
  row(WRITER, "creates of 1 MiB, responses never read", 200, "never read", ({ writer }, count) =>
    create(writer, `{"id":${FIRST_ID + count}${longTail}`),
  ),
  row(
    WRITER,
    "bodies in chunks of one byte, with a token and without",
    64,
    "read",
    inTurn(
      ({ writer }) => inBytes(writer, "POST"),
      () => inBytes("none", "POST"),
    ),
  ),
  row(
    WRITER,
    "bodies of 1 MiB of brackets and of many members",
    64,
    "read",
    inTurn(
      (target) => filled(target, "", "["),
      (target) => filled(target, '{"id":', '1,"a":'),
    ),
  ),
  row(
    WRITER,
    "small creates, 1,000 ahead",
    400,
    "never read",
    ({ writer }, count) => create(writer, `{"id":${FIRST_ID + count},"name":"a"}`),
    1000,
  ),
  row(NOBODY, "silent connections on all places", 3400, "read", NOTHING),
  row(NOBODY, "no token, responses never read", 1000, "never read", () => unknown, 1000),
  row(
    "a local user",
    "pipelined /metrics of the admin listener, and bodies that nobody reads",
    28,
    "discarded",
    inTurn(
      () => Buffer.concat(Array(1600).fill(metrics)),
      () => inBytes("none", "GET"),
    ),
  ),
];

/** The kernel drops the packets of more that wait to be accepted. */
const OPENED_AT_A_TIME = 200;
const SLOW_READ_EVERY_MS = 1000;
const LEAVES_AFTER_MS = 20;
const STATUS = "HTTP/1.1 ";

/** Carries out an attack, with a new connection for each that closes, until the returned function is called. */
export function attack(row: Attack, target: Target): () => void {
  const { by, connections, ahead, responses, send } = row;
  const port = by === "a local user" ? target.adminPort : target.port;
  const sockets = new Set<net.Socket>();
  let count = 0;
  let isOver = false;
  const open = (): net.Socket => {
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
    const sendMore = (requests: number) =>
      socket.write(Buffer.concat(Array.from({ length: requests }, () => send(target, count++))));
    sockets.add(socket.on("error", () => {}));
    socket
      .on("connect", () => {
        sendMore(ahead);
        if (responses === "not waited for") setTimeout(() => socket.destroy(), LEAVES_AFTER_MS);
      })
      .on("close", () => {
        sockets.delete(socket);
        setTimeout(() => isOver || open(), 1);
      });
    let rest = "";
    if (responses !== "never read" && responses !== "not waited for")
      socket.on("data", (chunk) => {
        if (responses === "read slowly") {
          socket.pause();
          setTimeout(() => socket.resume(), SLOW_READ_EVERY_MS);
        }
        if (responses !== "read") return;
        const parts = (rest + chunk.toString("latin1")).split(STATUS);
        rest = parts.at(-1)?.slice(1 - STATUS.length) ?? "";
        if (parts.length > 1) sendMore(parts.length - 1); // each response is followed by another request
      });
    return socket;
  };
  const begin = async () => {
    for (let opened = 1; opened <= connections && !isOver; opened++) {
      const connected = once(open(), "connect").catch(() => {});
      if (opened % OPENED_AT_A_TIME === 0) await connected;
    }
  };
  void begin();
  return () => {
    isOver = true;
    for (const socket of sockets) socket.destroy();
  };
}
