/**
 * The log of a running server, on standard error: what the server reports of itself, and one line
 * for every request that is published.
 *
 * Invariant: whatever text an event holds, its line is one line that moves no cursor, holds no token,
 * and is shorter than the 16 KiB at which Docker cuts a line in two. A request's numbers and the
 * characters of its id are as RequestMessage promises. The members of a JSON line are part of the
 * interface: members are added, but never changed or removed.
 */
import { constants, fstatSync, openSync } from "node:fs";
import { styleText } from "node:util";
import { type RequestMessage, subscribe } from "../core/channels.ts";
import { encodeJsonString, escapeControls, hideTokens, truncate } from "../core/text.ts";
import { type Format as FormatOf, LineWriter } from "./line-writer.ts";
import { count, LEVELS, type Level, type Notice, printNotice, reportTo } from "./output.ts";

export const LOG_FORMATS = ["json", "text", "off"] as const;

type LogEvent = Notice | RequestMessage;
type LogFormat = (typeof LOG_FORMATS)[number];

/**
 * Makes everything that is reported from now on a line of the log.
 *
 * @param given the format; by default text on a terminal, else JSON.
 */
export function startLog(given: LogFormat | undefined, level: Level): void {
  const isTerminal = process.stderr.isTTY === true;
  const format = given ?? (isTerminal ? "text" : "json");
  if (format === "off") {
    // The reason for a fatal exit is printed all the same.
    reportTo((notice) => notice.level === "error" && printNotice(notice));
    return;
  }
  const make = format === "json" ? jsonFormat : textFormat;
  const writer = new LineWriter<LogEvent>(openStandardError(), make, (lines) => {
    const message = `dropped ${count(lines, "line")} of this log: there was no room for them`;
    return { level: "warn", event: "log-dropped", message, fields: { lines } };
  });
  const isWanted = (noticed: Level) => LEVELS.indexOf(noticed) <= LEVELS.indexOf(level);
  reportTo((notice) => isWanted(notice.level) && writer.write(notice));
  if (isWanted("info")) subscribe("plant-store:request", (request) => writer.write(request));
  process.once("exit", () => writer.end());
}

/**
 * A descriptor of standard error to which a write never blocks, unless it is a file.
 *
 * All processes that have a descriptor share whether it blocks, so a terminal or a pipe is opened a
 * second time. A socket cannot be opened, but Node has already made it non-blocking.
 */
export function openStandardError(): number {
  const { isTTY, fd } = process.stderr; // the access makes the stream
  try {
    if (!isTTY && !fstatSync(fd).isFIFO()) return fd;
    const { O_WRONLY, O_NONBLOCK, O_NOCTTY } = constants;
    return openSync(`/proc/self/fd/${fd}`, O_WRONLY | O_NONBLOCK | O_NOCTTY);
  } catch {
    // Another system, another user's pipe, or a pipe without a reader: it works, and may block.
    return fd;
  }
}

export type Format = FormatOf<LogEvent>;

export const jsonFormat: Format = (event, time) =>
  "level" in event ? noticeInJson(event, time) : requestInJson(event, time);

function noticeInJson({ fields, ...notice }: Notice, time: number): string {
  const members = { time: formatTime(time), ...notice, ...fields };
  const show = (_: string, value: unknown) =>
    typeof value === "string" ? shorten(value) : (value ?? null);
  return escapeControls(JSON.stringify(members, show));
}

/** `JSON.stringify` would take three times as long (measured: 9 % of a create). */
function requestInJson(request: RequestMessage, time: number): string {
  const { method, path, status, error, cut, durationMs, bodyBytes } = request;
  const number = error === undefined ? "" : `,"error":${error}`;
  const end = cut ? ',"cut":true' : "";
  const took = durationMs === undefined ? "null" : durationMs.toFixed(3);
  const id = hideTokens(request.requestId); // needs no escape
  const outcome = `"method":${encodeText(method)},"path":${encodeText(path)},"status":${status}${number}${end}`;
  const rest = `"durationMs":${took},"bytes":${bodyBytes},"requestId":"${id}"`;
  const sender = `"token":${encodeText(request.token)},"client":${encodeText(request.client)}`;
  const start = `{"time":"${formatTime(time)}","level":"info","event":"request"`;
  return `${start},${outcome},${rest},${sender}}`;
}

let lastSecond = Number.NaN;
let lastSecondText = "";

/** Like `toISOString`, which takes a third of the time of a line, so it is called once a second. */
function formatTime(time: number): string {
  const second = Math.floor(time / 1000);
  if (second !== lastSecond) {
    lastSecond = second;
    lastSecondText = new Date(second * 1000).toISOString().slice(0, -"000Z".length);
  }
  return `${lastSecondText}${String(Math.floor(time) % 1000).padStart(3, "0")}Z`;
}

function encodeText(text: string | undefined): string {
  if (text === undefined) return "null";
  const short = shorten(text);
  const literal = encodeJsonString(short);
  // Searching a string that was just concatenated is slow, and nearly every text is harmless.
  return escapeControls(short) === short ? literal : escapeControls(literal);
}

type Colour = "red" | "yellow" | "green" | "gray";

/** Coloured if Node finds that standard error shows colours, and the environment wants them. */
function paint(colour: Colour, text: string): string {
  return styleText(colour, text, { stream: process.stderr });
}

export const textFormat: Format = (event, time) => {
  const clock = paint("gray", new Date(time).toTimeString().slice(0, 8));
  return `${clock} ${"level" in event ? noticeInText(event) : requestInText(event)}`;
};

function noticeInText({ level, message }: Notice): string {
  const labels = { error: paint("red", "error:"), warn: paint("yellow", "warning:"), info: "" };
  return `${labels[level]} ${showText(message)}`.trimStart();
}

function requestInText(request: RequestMessage): string {
  const { method, path, status, error, cut, durationMs, bodyBytes, requestId, token, client } =
    request;
  const what = showText(`${method ?? "-"} ${path ?? "-"}`);
  const more = cut ? " cut" : error ? ` ${error}` : "";
  const outcome = paint(cut ? "yellow" : colourOf(status), `${status}${more}`);
  const took = durationMs === undefined ? "-" : `${durationMs.toFixed(1)} ms`;
  const rest = showText(`${took} ${bodyBytes} B ${token ?? "-"} ${client ?? "-"} ${requestId}`);
  return `${what} ${outcome} ${paint("gray", rest)}`;
}

function showText(text: string): string {
  return escapeControls(shorten(text));
}

function colourOf(status: number): Colour {
  if (status >= 500) return "red";
  return status >= 400 ? "yellow" : "green";
}

/** Each may take six bytes of a line. */
const TEXT_CHARACTERS_MAX = 1024;

/** Hides tokens first: half of one at the end would not be recognised. */
function shorten(text: string): string {
  return truncate(hideTokens(text), TEXT_CHARACTERS_MAX);
}
