/**
 * One event, one line: JSON for programs, short text for people.
 *
 * Invariant: whatever texts an event holds, its line is one line, one record,
 * moves no cursor and holds no token. The numbers of a request and the
 * characters of its id are taken for what RequestMessage promises. The members
 * of a JSON line are part of the interface: some may be added, none changes or goes.
 */
import { encodeJsonString, escapeControls, type RequestMessage } from "../../index.ts";
import type { Level, Notice } from "../notice.ts";

/** How lines look. Times are milliseconds since 1970. */
export interface Format {
  notice(notice: Notice, time: number): string;
  request(request: RequestMessage, time: number): string;
}

export const JSON_FORMAT: Format = {
  notice({ level, event, message, fields = {} }, time) {
    const members = Object.entries({ message, ...fields }).map(
      ([name, value]) => `,${encodeText(name)}:${encodeValue(value)}`,
    );
    return `${jsonStart(level, event, time)}${members.join("")}}`;
  },

  // There is one of these for every request: what the last one shares is not made again, and
  // the pieces are few: V8 keeps a node for each until all are copied into one text.
  request(request, time) {
    const { durationMs, requestId, token } = request;
    const took = durationMs === undefined ? null : durationMs.toFixed(3);
    // The id has no character that needs an escape: to look for one took a third of a line.
    return `${requestStart(time)}${upToDuration(request)}${took}${upToId(request)}${hideTokens(requestId)}${behindId(token)}`;
  },
};

export function textFormat(hasColours: boolean): Format {
  const paint = hasColours
    ? (code: number, text: string) => `\u001b[${code}m${text}\u001b[0m`
    : (_: number, text: string) => text;
  const show = (text: string) => escapeControls(hideTokens(text));
  const start = (time: number) => paint(GREY, new Date(time).toTimeString().slice(0, 8));
  return {
    notice({ level, message }, time) {
      const label = level === "info" ? "" : `${paint(LEVEL_COLOURS[level], LABELS[level])} `;
      return `${start(time)} ${label}${show(message)}`;
    },
    request(request, time) {
      const { method, path, status, error, cut, durationMs, requestId, token } = request;
      const { bodyBytes, sentBytes = bodyBytes } = request;
      const what = show(`${method ?? "-"} ${path ?? "-"}`);
      const more = cut ? " cut" : error ? ` ${error}` : "";
      const outcome = paint(cut ? YELLOW : statusColour(status), `${status}${more}`);
      const took = durationMs === undefined ? "-" : `${durationMs.toFixed(1)} ms`;
      const rest = show(`${took} ${sentBytes} B ${token ?? "-"} ${requestId}`);
      return `${start(time)} ${what} ${outcome} ${paint(GREY, rest)}`;
    },
  };
}

const GREY = 90;
const [RED, GREEN, YELLOW] = [31, 32, 33];
const LEVEL_COLOURS: Readonly<Record<Level, number>> = { error: RED, warn: YELLOW, info: GREEN };
const LABELS: Readonly<Record<Level, string>> = { error: "error:", warn: "warning:", info: "" };

function statusColour(status: number): number {
  if (status >= 500) return RED;
  return status >= 400 ? YELLOW : GREEN;
}

function jsonStart(level: Level, event: string, time: number): string {
  return `{"time":"${new Date(time).toISOString()}","level":"${level}","event":"${event}"`;
}

/** Many requests share a millisecond, and its text takes long to make. */
const requestStart = keepLast((time: number) => jsonStart("info", "request", time), Object.is);

const upToDuration = keepLast(
  ({ method, path, status, error, cut }: RequestMessage) => {
    const number = error === undefined ? "" : `,"error":${error}`;
    const end = cut ? ',"cut":true' : "";
    return `,"method":${encodeText(method)},"path":${encodeText(path)},"status":${status}${number}${end},"durationMs":`;
  },
  (one, other) =>
    one.method === other.method &&
    one.path === other.path &&
    one.status === other.status &&
    one.error === other.error &&
    one.cut === other.cut,
);

const upToId = keepLast(
  ({ bodyBytes, sentBytes }: RequestMessage) => {
    const sent = sentBytes === undefined ? "" : `,"sent":${sentBytes}`;
    return `,"bytes":${bodyBytes}${sent},"requestId":"`;
  },
  (one, other) => one.bodyBytes === other.bodyBytes && one.sentBytes === other.sentBytes,
);

const behindId = keepLast(
  (token: string | undefined) => `","token":${encodeText(token)}}`,
  Object.is,
);

/** The same function, but for work that was just done. */
function keepLast<From>(
  make: (from: From) => string,
  isSame: (one: From, other: From) => boolean,
): (from: From) => string {
  let last: { readonly from: From; readonly to: string } | undefined;
  return (from) => {
    if (last === undefined || !isSame(last.from, from)) last = { from, to: make(from) };
    return last.to;
  };
}

function encodeText(text: string | undefined): string {
  if (text === undefined) return "null";
  const literal = encodeJsonString(hideTokens(text));
  // Nearly every text is harmless, and a literal that was just put together is slow to search.
  return escapeControls(text) === text ? literal : escapeControls(literal);
}

const TOKEN_LENGTH = 47;

/**
 * Some client puts its token into the path, or sends it as the name of its request. Few texts are
 * as long as one; to search the others, which were just put together, would cost a third of a line.
 */
function hideTokens(text: string): string {
  if (text.length < TOKEN_LENGTH || !text.includes("pst_")) return text;
  return text.replace(/pst_[\w-]{43}/g, "pst_...");
}

function encodeValue(value: string | number | undefined): string {
  return typeof value === "number" ? String(value) : encodeText(value);
}
