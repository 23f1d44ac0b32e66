/** The responses in the bytes that a server sent. */
export interface RawAnswer {
  readonly status: number;
  /** Names in lower case; the values of a repeated one are joined by ", ". */
  readonly headers: Map<string, string>;
  readonly text: string;
}

/** The complete answers from a byte on, with interim ones (1xx). */
export function parseAnswers(received: Buffer, from = 0): RawAnswer[] {
  const next = parseAnswer(received, from);
  return next === undefined ? [] : [next.answer, ...parseAnswers(received, next.end)];
}

/** The answer that begins at a byte, and where it ends; `undefined` while it is not complete. One to HEAD has no body. */
export function parseAnswer(
  received: Buffer,
  from: number,
  isHead = false,
): { readonly answer: RawAnswer; readonly end: number } | undefined {
  const headEnd = received.indexOf("\r\n\r\n", from);
  if (headEnd < 0) return undefined;
  const [first = "", ...lines] = received.toString("latin1", from, headEnd).split("\r\n");
  const status = Number(first.split(" ")[1]);
  const headers = new Map<string, string>();
  for (const line of lines) {
    const [, name = "", value = ""] = /^([^:]*):\s*(.*?)\s*$/.exec(line) ?? [];
    const before = headers.get(name.toLowerCase());
    headers.set(name.toLowerCase(), before === undefined ? value : `${before}, ${value}`);
  }
  const start = headEnd + 4;
  if (isHead) return { answer: { status, headers, text: "" }, end: start };
  if (headers.has("transfer-encoding")) {
    const body = parseChunks(received, start);
    return body && { answer: { status, headers, text: body.text }, end: body.end };
  }
  const end = start + Number(headers.get("content-length") ?? 0);
  if (received.length < end) return undefined;
  return { answer: { status, headers, text: received.toString("utf8", start, end) }, end };
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
