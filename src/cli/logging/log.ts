/**
 * The log of a running server, on standard error: what it tells of itself, and
 * one line for every request it answers.
 *
 * Requests are heard on `plant-store:request`, and only where their lines are
 * wanted, so a server that does not log them does not pay for them.
 */
import { subscribe } from "node:diagnostics_channel";
import type { RequestMessage } from "../../core/channels.ts";
import { LEVELS, type Level, type Notice } from "../notice.ts";
import { reportTo } from "../output.ts";
import { type Format, jsonFormat, textFormat } from "./format.ts";
import { LineWriter } from "./line-writer.ts";
import { nameFault, reportProcessFaults } from "./process-faults.ts";
import { openStandardError, wantsColours } from "./standard-error.ts";

export const LOG_FORMATS = ["json", "text", "off"] as const;

export interface LogOptions {
  /** Default: text on a terminal, else JSON. */
  readonly format: (typeof LOG_FORMATS)[number] | undefined;
  readonly level: Level;
}

/** From now on everything that is reported is a line of the log. */
export function startLog(options: LogOptions): void {
  reportProcessFaults();
  const isTerminal = process.stderr.isTTY === true;
  const { format = isTerminal ? "text" : "json", level } = options;
  if (format === "off") {
    // Why a process ends is told all the same, as every command tells it.
    reportTo((notice, tell) => {
      if (notice.level === "error") tell(notice);
    });
    return;
  }
  const line = format === "json" ? jsonFormat : textFormat(wantsColours(process.env, isTerminal));
  writeLog(line, level);
}

function writeLog(line: Format, level: Level): void {
  const writer = new LineWriter(openStandardError(), {
    line,
    loss: describeLoss,
    fault: describeFault,
  });
  const isWanted = (noticed: Level) => LEVELS.indexOf(noticed) <= LEVELS.indexOf(level);
  reportTo((notice) => {
    if (isWanted(notice.level)) writer.write(notice);
  });
  if (isWanted("info")) {
    subscribe("plant-store:request", (message) => {
      const request = message as RequestMessage;
      writer.writeLater(request, request.endedAt);
    });
  }
  process.once("exit", () => writer.end());
}

function describeLoss(lines: number): Notice {
  const message = `dropped ${lines} line${lines === 1 ? "" : "s"} of this log: there was no room for them`;
  return { level: "warn", event: "log-dropped", message, fields: { lines } };
}

function describeFault(fault: unknown): Notice {
  const message = `a line of this log could not be made: ${nameFault(fault)}`;
  return { level: "error", event: "log-fault", message };
}
