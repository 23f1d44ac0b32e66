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
import { type LineFormat, putText } from "./line-writer.ts";

/** How lines look. */
export type Format = LineFormat<Notice | RequestMessage>["put"];

export const jsonFormat: Format = (event, time, bytes, start, end) => {
  if (!("level" in event)) return putRequest(event, time, bytes, start, end);
  const { level, event: name, message, fields = {} } = event;
  const members = Object.entries({ message, ...fields }).map(
    ([member, value]) => `,${encodeText(member)}:${encodeValue(value)}`,
  );
  return putText(`${jsonStart(level, name, time)}${members.join("")}}`, bytes, start, end);
};

export function textFormat(hasColours: boolean): Format {
  const paint = hasColours
    ? (code: number, text: string) => `\u001b[${code}m${text}\u001b[0m`
    : (_: number, text: string) => text;
  const show = (text: string) => escapeControls(hideTokens(text));
  const showNotice = ({ level, message }: Notice) => {
    const label = level === "info" ? "" : `${paint(LEVEL_COLOURS[level], LABELS[level])} `;
    return `${label}${show(message)}`;
  };
  const showRequest = (request: RequestMessage) => {
    const { method, path, status, error, cut, durationMs, requestId, token } = request;
    const { bodyBytes, sentBytes = bodyBytes } = request;
    const what = show(`${method ?? "-"} ${path ?? "-"}`);
    const more = cut ? " cut" : error ? ` ${error}` : "";
    const outcome = paint(cut ? YELLOW : statusColour(status), `${status}${more}`);
    const took = durationMs === undefined ? "-" : `${durationMs.toFixed(1)} ms`;
    const rest = show(`${took} ${sentBytes} B ${token ?? "-"} ${requestId}`);
    return `${what} ${outcome} ${paint(GREY, rest)}`;
  };
  return (event, time, bytes, start, end) => {
    const clock = paint(GREY, new Date(time).toTimeString().slice(0, 8));
    const shown = "level" in event ? showNotice(event) : showRequest(event);
    return putText(`${clock} ${shown}`, bytes, start, end);
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
  return `{"time":"${new Date(time).toISOString()}${behindTime(level, event)}`;
}

function behindTime(level: Level, event: string): string {
  return `","level":"${level}","event":"${event}"`;
}

/**
 * There is one of these for every request: what it shares with the last one is copied, and the
 * rest is put behind it without a text in between, which took 2 % of a create (256 connections),
 * of the 5 that the log may cost.
 */
function putRequest(
  request: RequestMessage,
  time: number,
  bytes: Buffer,
  start: number,
  end: number,
): number | undefined {
  const head = upToMilliseconds(Math.floor(time / 1000));
  const what = upToDuration(request);
  const id = hideTokens(request.requestId); // has no character that needs an escape
  const tail = behindId(request.token);
  const length = head.length + what.length + id.length + tail.length;
  if (start + length + BETWEEN_MAX > end) return undefined;
  let at = copy(head, bytes, start);
  at = putDigits(Math.floor(time) % 1000, 3, bytes, at);
  at = copy(what, bytes, at);
  at = putDuration(request.durationMs, bytes, at);
  at = putWhole(request.bodyBytes, bytes, putAscii(BYTES, bytes, at));
  const { sentBytes } = request;
  if (sentBytes !== undefined) at = putWhole(sentBytes, bytes, putAscii(SENT, bytes, at));
  at = putAscii(id, bytes, putAscii(ID, bytes, at));
  return copy(tail, bytes, at);
}

/** Many requests share a second, and its text takes long to make. */
const upToMilliseconds = keepLast(
  (second: number) => `{"time":"${new Date(second * 1000).toISOString().slice(0, -"000Z".length)}`,
  Object.is,
);

const upToDuration = keepLast(
  ({ method, path, status, error, cut }: RequestMessage) => {
    const number = error === undefined ? "" : `,"error":${error}`;
    const end = cut ? ',"cut":true' : "";
    return `Z${behindTime("info", "request")},"method":${encodeText(method)},"path":${encodeText(path)},"status":${status}${number}${end},"durationMs":`;
  },
  (one, other) =>
    one.method === other.method &&
    one.path === other.path &&
    one.status === other.status &&
    one.error === other.error &&
    one.cut === other.cut,
);

const behindId = keepLast(
  (token: string | undefined) => `","token":${encodeText(token)}}\n`,
  Object.is,
);

/** The bytes of what `make` returns, which are kept for the next that is the same. */
function keepLast<From>(
  make: (from: From) => string,
  isSame: (one: From, other: From) => boolean,
): (from: From) => Buffer {
  let last: { readonly from: From; readonly to: Buffer } | undefined;
  return (from) => {
    if (last === undefined || !isSame(last.from, from))
      last = { from, to: Buffer.from(make(from)) };
    return last.to;
  };
}

function copy(part: Buffer, bytes: Buffer, start: number): number {
  bytes.set(part, start);
  return start + part.length;
}

function putAscii(text: string, bytes: Buffer, start: number): number {
  for (let at = 0; at < text.length; at++) bytes[start + at] = text.charCodeAt(at);
  return start + text.length;
}

const BYTES = ',"bytes":';
const SENT = ',"sent":';
const ID = ',"requestId":"';
/** These, and the digits of the milliseconds of a time, of a duration and of two lengths. */
const BETWEEN_MAX = BYTES.length + SENT.length + ID.length + 3 + 24 + 2 * 16;
const [ZERO, POINT] = Buffer.from("0.") as unknown as [number, number];

/** With three decimals, as `toFixed` would have it: that took as long as half a line. */
function putDuration(ms: number | undefined, bytes: Buffer, start: number): number {
  if (ms === undefined) return putAscii("null", bytes, start);
  const us = Math.round(ms * 1000);
  const at = putWhole(Math.trunc(us / 1000), bytes, start);
  bytes[at] = POINT;
  return putDigits(us % 1000, 3, bytes, at + 1);
}

function putWhole(whole: number, bytes: Buffer, start: number): number {
  let digits = 1;
  for (let limit = 10; whole >= limit; limit *= 10) digits++;
  return putDigits(whole, digits, bytes, start);
}

function putDigits(whole: number, digits: number, bytes: Buffer, start: number): number {
  let rest = whole;
  for (let at = start + digits - 1; at >= start; at--) {
    bytes[at] = ZERO + (rest % 10);
    rest = Math.trunc(rest / 10);
  }
  return start + digits;
}

function encodeText(text: string | undefined): string {
  if (text === undefined) return "null";
  const literal = encodeJsonString(hideTokens(text));
  // Nearly every text is harmless, and a literal that was just put together is slow to search.
  return escapeControls(text) === text ? literal : escapeControls(literal);
}

const TOKEN_LENGTH = 47;

/** A percent sign, however often it was encoded itself: a proxy may decode, and a reader of the log. */
const PERCENT = "%(?:25)*";
/** What decodes to a token: each of its characters may be percent-encoded. */
const TOKEN_FORM = new RegExp(
  "(?:p|%70)(?:s|%73)(?:t|%74)(?:_|%5[Ff])(?:[\\w-]|%(?:2[Dd]|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa]|5[Ff])){43}".replaceAll(
    "%",
    PERCENT,
  ),
  "g",
);

/**
 * Some client puts its token into the path, or sends it as the name of its request. Few texts are
 * as long as one; to search the others, which were just put together, would cost a third of a line.
 */
function hideTokens(text: string): string {
  if (text.length < TOKEN_LENGTH || !(text.includes("pst_") || text.includes("%"))) return text;
  return text.replace(TOKEN_FORM, "pst_...");
}

function encodeValue(value: string | number | undefined): string {
  return typeof value === "number" ? String(value) : encodeText(value);
}
