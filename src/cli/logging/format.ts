/**
 * One event, one line: JSON for programs, short text for people.
 *
 * Invariant: whatever an event holds, its line is one line, one record, and
 * moves no cursor. The members of a JSON line are part of the interface: some
 * may be added, none changes or goes.
 */
import { encodeJsonString, escapeControls, type RequestMessage } from "../../index.ts";
import type { Level, Notice } from "../notice.ts";
import { isNatural, type LineBytes } from "./line-bytes.ts";

/** How lines look. Times are milliseconds since 1970. */
export interface Format {
  notice(notice: Notice, time: number): string;
  /** Puts the line together, because there is one for every request. */
  request(request: RequestMessage, time: number, line: LineBytes): void;
}

export const JSON_FORMAT: Format = {
  notice({ level, event, message, fields = {} }, time) {
    const members = Object.entries({ message, ...fields }).map(
      ([name, value]) => `,${encodeText(name)}:${encodeValue(value)}`,
    );
    return `${jsonStart(level, event, time)}${members.join("")}}`;
  },

  request(
    { method, path, status, error, cut, durationMs, bodyBytes, requestId, token },
    time,
    line,
  ) {
    line.piece(requestStart(time));
    line.piece(METHOD);
    line.text(encodeMethod(method));
    line.piece(PATH);
    line.text(encodePath(path));
    line.piece(STATUS);
    line.number(status);
    if (error !== undefined) line.text(`,"error":${error}`);
    if (cut) line.text(',"cut":true');
    line.piece(DURATION);
    putMs(durationMs, line);
    line.piece(BYTES);
    line.number(bodyBytes);
    line.piece(REQUEST_ID);
    line.text(encodeText(requestId));
    line.piece(TOKEN);
    line.text(encodeToken(token));
    line.text("}");
  },
};

export function textFormat(hasColours: boolean): Format {
  const paint = hasColours
    ? (code: number, text: string) => `\u001b[${code}m${text}\u001b[0m`
    : (_: number, text: string) => text;
  const start = (time: number) => paint(GREY, new Date(time).toTimeString().slice(0, 8));
  return {
    notice({ level, message }, time) {
      const label = level === "info" ? "" : `${paint(LEVEL_COLOURS[level], LABELS[level])} `;
      return `${start(time)} ${label}${escapeControls(message)}`;
    },
    request(
      { method, path, status, error, cut, durationMs, bodyBytes, requestId, token },
      time,
      line,
    ) {
      const what = escapeControls(`${method ?? "-"} ${path ?? "-"}`);
      const more = cut ? " cut" : error ? ` ${error}` : "";
      const outcome = paint(cut ? YELLOW : statusColour(status), `${status}${more}`);
      const took = durationMs === undefined ? "-" : `${durationMs.toFixed(1)} ms`;
      const rest = escapeControls(`${took} ${bodyBytes} B ${token ?? "-"} ${requestId}`);
      line.text(`${start(time)} ${what} ${outcome} ${paint(GREY, rest)}`);
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

/** Many requests share a millisecond, and making its text costs as much as the rest of the line. */
const requestStart = keepLast((time: number) => Buffer.from(jsonStart("info", "request", time)));

// What most requests share.
const encodeMethod = keepLast(encodeText);
const encodePath = keepLast(encodeText);
const encodeToken = keepLast(encodeText);

const METHOD = Buffer.from(',"method":');
const PATH = Buffer.from(',"path":');
const STATUS = Buffer.from(',"status":');
const DURATION = Buffer.from(',"durationMs":');
const BYTES = Buffer.from(',"bytes":');
const REQUEST_ID = Buffer.from(',"requestId":');
const TOKEN = Buffer.from(',"token":');

/** The same function, but for work that was just done. */
function keepLast<From, To>(make: (from: From) => To): (from: From) => To {
  let last: { readonly from: From; readonly to: To } | undefined;
  return (from) => {
    if (last === undefined || last.from !== from) last = { from, to: make(from) };
    return last.to;
  };
}

function encodeText(text: string | undefined): string {
  if (text === undefined) return "null";
  const literal = encodeJsonString(text);
  // Nearly every text is harmless, and a literal that was just put together is slow to search.
  return escapeControls(text) === text ? literal : escapeControls(literal);
}

function encodeValue(value: string | number | undefined): string {
  return typeof value === "number" ? String(value) : encodeText(value);
}

/** To the microsecond; `null` for what is no time. */
function putMs(ms: number | undefined, line: LineBytes): void {
  const us = Math.round((ms ?? Number.NaN) * 1000);
  line.number(Math.floor(us / 1000));
  if (!isNatural(us)) return;
  line.text(".");
  line.number(us % 1000, 3);
}
