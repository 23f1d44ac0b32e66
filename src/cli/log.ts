/**
 * The log of a running server, on standard error: what the server reports of itself, and one line
 * for every request that is published.
 *
 * Invariant: whatever text an event holds, its line is one line that moves no cursor, holds no token, and is shorter
 * than the 16 KiB at which Docker cuts a line in two. Members of a JSON line are added, but never changed or removed.
 */
import { fstatSync, writeSync } from "node:fs";
import { styleText } from "node:util";
import { type RequestMessage, subscribe } from "../core/channels.ts";
import { escapeControls, shorten } from "../core/text.ts";
import { count, LEVELS, type Level, type Notice, printNotice, reportTo } from "./output.ts";

export const LOG_FORMATS = ["json", "text", "off"] as const;
type LogFormat = (typeof LOG_FORMATS)[number];

/** Makes the line of an event, with its line feed. Must not throw. */
export type Format = (event: Notice | RequestMessage) => string;

/** Makes everything that is reported from now on a line; by default text on a terminal, else JSON. */
export function startLog(given: LogFormat | undefined, level: Level): void {
  const chosen = given ?? (process.stderr.isTTY ? "text" : "json");
  if (chosen === "off") {
    // Errors, and the line that says where it listens, are printed even then.
    const isPrinted = ({ level, event }: Notice) => level === "error" || event === "listening";
    reportTo((notice) => isPrinted(notice) && printNotice(notice));
    return;
  }
  const format = chosen === "json" ? jsonFormat : textFormat;
  const write = batchLines(format);
  const isWanted = (noticed: Level) => LEVELS.indexOf(noticed) <= LEVELS.indexOf(level);
  reportTo((notice) => isWanted(notice.level) && write(format(notice)));
  if (isWanted("info")) subscribe("plant-store:request", (request) => write(format(request)));
}

/** Lines leave this often: each write wakes the reader. */
const INTERVAL_MS = 10;
/** Lines that wait for a reader, at most: about five thousand requests. */
const WAITING_CHARACTERS_MAX = 1024 * 1024;

/**
 * Returns a function that writes lines to standard error and never waits for the reader of a pipe: Node queues
 * what a full pipe does not take. Lines that find no room are dropped, and a later line says how many.
 */
function batchLines(format: Format): (line: string) => void {
  const isFile = fstatSync(2).isFile();
  let lines = "";
  let dropped = 0;
  let isScheduled = false;
  const hasRoom = () => process.stderr.writableLength + lines.length < WAITING_CHARACTERS_MAX;
  const flush = () => {
    isScheduled = false;
    if (dropped > 0 && hasRoom()) {
      lines += format(noticeOfLoss(dropped));
      dropped = 0;
    }
    try {
      // Node's stream would be closed for good by a disk that is full for a moment.
      if (isFile) lines = Buffer.from(lines).subarray(writeSync(2, lines)).toString();
      else {
        process.stderr.write(lines);
        lines = "";
      }
    } catch {} // they are written again with the next line
  };
  process.once("exit", flush);
  return (line) => {
    if (!isScheduled) setTimeout(flush, INTERVAL_MS).unref();
    isScheduled = true;
    if (hasRoom()) lines += line;
    else dropped++;
  };
}

function noticeOfLoss(lines: number): Notice {
  const message = `dropped ${count(lines, "line")} of this log: there was no room for them`;
  return { level: "warn", event: "log-dropped", message, fields: { lines } };
}

export const jsonFormat: Format = (event) =>
  `${"level" in event ? noticeInJson(event) : requestInJson(event)}\n`;

function noticeInJson({ fields, ...notice }: Notice): string {
  const members = { time: now(), ...notice, ...fields };
  const show = (_: string, value: unknown) =>
    typeof value === "string" ? shorten(value, CHARACTERS_MAX) : (value ?? null);
  return escapeControls(JSON.stringify(members, show));
}

/** `JSON.stringify` would take six times as long (measured: 1.8 us, of a create of 20 to 30). */
function requestInJson(request: RequestMessage): string {
  const { method, path, status, error, cut, durationMs, bodyBytes } = request;
  const number = error === undefined ? "" : `,"error":${error}`;
  const end = cut ? ',"cut":true' : "";
  const took = durationMs === undefined ? "null" : durationMs.toFixed(3);
  const outcome = `"method":${encodeText(method)},"path":${encodeText(path)},"status":${status}${number}${end}`;
  const rest = `"durationMs":${took},"bytes":${bodyBytes},"requestId":${encodeText(request.requestId)}`;
  const sender = `"token":${encodeText(request.token)},"client":${encodeText(request.client)}`;
  const start = `{"time":"${now()}","level":"info","event":"request"`;
  return `${start},${outcome},${rest},${sender}}`;
}

let lastMs = 0;
let lastText = "";

/** The time in ISO 8601, which takes a third of the time of a line: made once a millisecond. */
function now(): string {
  const ms = Date.now();
  if (ms !== lastMs) lastText = new Date(ms).toISOString();
  lastMs = ms;
  return lastText;
}

/** Printable ASCII without quotes and backslashes: nearly every text, and quick to encode. */
const HARMLESS = /^[ !#-[\]-~]*$/;

function encodeText(text: string | undefined): string {
  if (text === undefined) return "null";
  const isShort = text.length <= CHARACTERS_MAX;
  if (isShort && HARMLESS.test(text) && !text.includes("pst_")) return `"${text}"`;
  return escapeControls(JSON.stringify(shorten(text, CHARACTERS_MAX)));
}

/** Coloured if Node finds that standard error shows colours, and the environment wants them. */
function paint(colour: "red" | "yellow" | "green" | "gray", text: string): string {
  return styleText(colour, text, { stream: process.stderr });
}

export const textFormat: Format = (event) => {
  const clock = paint("gray", new Date().toTimeString().slice(0, 8));
  return `${clock} ${"level" in event ? noticeInText(event) : requestInText(event)}\n`;
};

function noticeInText({ level, message }: Notice): string {
  const labels = { error: paint("red", "error: "), warn: paint("yellow", "warning: "), info: "" };
  return labels[level] + showText(message);
}

function requestInText(request: RequestMessage): string {
  const { method = "-", path = "-", status, error, cut, durationMs, bodyBytes } = request;
  const { requestId, token = "-", client = "-" } = request;
  const more = cut ? " (cut)" : error === undefined ? "" : ` (error ${error})`;
  const colour = status >= 500 ? "red" : cut || status >= 400 ? "yellow" : "green";
  const outcome = paint(colour, `${status}${more}`);
  const took = `${durationMs?.toFixed(1) ?? "-"} ms, ${bodyBytes} B`;
  const sender = `token ${token}, client ${client}, id ${requestId}`;
  return `${showText(`${method} ${path}`)} ${outcome} ${paint("gray", showText(`${took}, ${sender}`))}`;
}

function showText(text: string): string {
  return escapeControls(shorten(text, CHARACTERS_MAX));
}

/** Each may take six bytes of a line. */
const CHARACTERS_MAX = 1024;
