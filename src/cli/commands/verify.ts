/** `plant-store verify`: reads the whole log and reports, also beside a running server. */
import { isSound, type LineFault, type VerifyReport, verifyLog } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { DATA, JSON_OUTPUT } from "../options.ts";
import { printLines, printMessage } from "../output.ts";
import { Progress } from "../progress.ts";

export const verify = defineCommand({
  name: "verify",
  summary: "read the whole log and report; exit status 3 on damage",
  arguments: [],
  options: { data: DATA, json: JSON_OUTPUT },
  details: `Damage is what needs a person: a line that cannot be read, one id with two contents,
another checksum than the checkpoint's, a log that is shorter than its checkpoint records.
Mendable lines and torn bytes, as a power cut leaves them, are no damage: the next start
puts them aside by itself.`,
  async run(_, { data = "", json = false }) {
    const progress = new Progress("verifying");
    const report = await verifyLog(data, {
      onFault: (fault) => printMessage(describeFault(fault)),
      onProgress: (bytes, total) => progress.update(bytes, total),
    }).finally(Progress.clear);
    await printLines(json ? [JSON.stringify(report)] : formatReport(report));
    return isSound(report) ? 0 : 3;
  },
});

/** One line for a person who looks for it in an editor. */
export function describeFault({ position, reason }: LineFault): string {
  return `line ${position.line}, byte offset ${position.offset}: ${reason}`;
}

function formatReport(report: VerifyReport): string[] {
  const { bytes, tornBytes, checkpointBytes = 0 } = report;
  const checksum = {
    matches: `matches the checkpoint at ${checkpointBytes} bytes`,
    shorter: `not compared: the log holds ${bytes + tornBytes} bytes, and its checkpoint knows of ${checkpointBytes}: it was cut, or copied before its checkpoint`,
    differs: `differs from the checkpoint at ${checkpointBytes} bytes: these are not the bytes that were stored`,
    none: "there is no checkpoint to compare with",
  };
  const rows: [string, string | number][] = [
    ["records", report.records],
    ["bytes", bytes],
    ["duplicates", report.duplicates],
    ["damaged", report.damaged],
    ["mendable", report.mendable],
    ["torn bytes", tornBytes],
    ["checksum", checksum[report.checksum]],
  ];
  return rows.map(([name, value]) => `${name.padEnd(12)}${value}`);
}
