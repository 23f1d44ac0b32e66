/** A client that writes bytes to a socket, for requests that no HTTP library would send. */
import net from "node:net";

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; the values of a repeated one are joined by ", ". */
  readonly headers: Map<string, string>;
  readonly text: string;
}

/**
 * Sends the parts one after the other, each in a packet of its own, and reads
 * until the server closes or `answers` answers are there.
 */
export async function sendRaw(
  port: number,
  parts: string | Buffer | readonly (string | Buffer)[],
  answers = Number.POSITIVE_INFINITY,
): Promise<RawAnswer[]> {
  const socket = net.connect({ port, host: "127.0.0.1", noDelay: true });
  let received = Buffer.alloc(0);
  const done = new Promise<void>((resolve, reject) => {
    socket.on("data", (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (parseAnswers(received).length >= answers) socket.destroy();
    });
    socket.on("error", reject);
    socket.on("close", () => resolve());
  });
  for (const part of typeof parts === "string" || Buffer.isBuffer(parts) ? [parts] : parts) {
    if (socket.destroyed) break;
    // The kernel has the bytes; a turn of the event loop lets the server read this packet alone.
    await new Promise<void>((resolve) => socket.write(part, () => setImmediate(resolve)));
  }
  await done;
  return parseAnswers(received);
}

/** The complete answers in the received text, from a byte on, with interim ones (1xx). */
export function parseAnswers(received: Buffer, from = 0): RawAnswer[] {
  const answers: RawAnswer[] = [];
  for (let next = parseAnswer(received, from); next !== undefined; ) {
    answers.push(next.answer);
    next = parseAnswer(received, next.end);
  }
  return answers;
}

/** The answer that begins at a byte, and where it ends; `undefined` while it is not complete. One to HEAD has no body. */
export function parseAnswer(
  received: Buffer,
  from: number,
  isHead = false,
): { readonly answer: RawAnswer; readonly end: number } | undefined {
  const headEnd = received.indexOf("\r\n\r\n", from);
  if (headEnd < 0) return undefined;
  const [statusLine = "", ...headerLines] = received
    .toString("latin1", from, headEnd)
    .split("\r\n");
  const headers = new Map<string, string>();
  for (const line of headerLines) {
    const colon = line.indexOf(":");
    const name = line.slice(0, colon).toLowerCase();
    const value = line.slice(colon + 1).trim();
    headers.set(name, headers.has(name) ? `${headers.get(name)}, ${value}` : value);
  }
  const bodyStart = headEnd + 4;
  const status = Number(statusLine.split(" ")[1]);
  if (headers.has("transfer-encoding") && !isHead) {
    const body = parseChunks(received, bodyStart);
    return body && { answer: { status, headers, text: body.text }, end: body.end };
  }
  const end = isHead ? bodyStart : bodyStart + Number(headers.get("content-length") ?? 0);
  if (received.length < end) return undefined;
  return { answer: { status, headers, text: received.toString("utf8", bodyStart, end) }, end };
}

/** A body in chunks; `undefined` while its last chunk is missing. */
function parseChunks(received: Buffer, from: number) {
  const parts: Buffer[] = [];
  for (let at = from; ; ) {
    const lineEnd = received.indexOf("\r\n", at);
    if (lineEnd < 0) return undefined;
    const length = Number.parseInt(received.toString("latin1", at, lineEnd), 16);
    const end = lineEnd + 2 + length + 2;
    if (received.length < end) return undefined;
    if (length === 0) return { text: Buffer.concat(parts).toString(), end };
    parts.push(received.subarray(lineEnd + 2, end - 2));
    at = end;
  }
}
