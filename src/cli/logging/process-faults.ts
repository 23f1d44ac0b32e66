/**
 * What Node would print by itself, with a stack of many lines: its warnings,
 * and what nobody caught, which ends the process with status 1. Here each is
 * one line of the log.
 */
import { publishWarning } from "../../core/channels.ts";
import { report } from "../output.ts";

export function reportProcessFaults(): void {
  process.removeAllListeners("warning"); // one of Node's own prints them
  process.on("warning", (warning) => publishWarning(`Node.js warns: ${nameFault(warning)}`));
  // A rejection that nobody handled is one too.
  process.on("uncaughtException", (fault: unknown) => {
    const message = `a defect has ended the server: ${nameFault(fault)}`;
    report({ level: "error", event: "failed", message });
    process.exit(1);
  });
}

/** What a fault is, without its stack. Never throws: anything may be one, also what is no text. */
export function nameFault(fault: unknown): string {
  try {
    return fault instanceof Error ? `${fault.name}: ${fault.message}` : String(fault);
  } catch {
    return "something that cannot be named";
  }
}
