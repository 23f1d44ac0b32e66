/** `plant-store print systemd-unit`: the unit files for this very program, ready to install. */
import { isIP } from "node:net";
import path from "node:path";
import { formatHostPort } from "../../core/host-port.ts";
import { defineCommand, UsageError } from "../command.ts";
import { HOST, oneOf, PORT } from "../options.ts";
import { printLines } from "../output.ts";
import { serviceUnit, socketUnit } from "../systemd-unit.ts";

const FOLDER = "/etc/systemd/system";

export const printSystemdUnit = defineCommand({
  name: "print systemd-unit",
  summary: "print a hardened unit for systemd, and its socket unit",
  arguments: [],
  options: {
    unit: oneOf(["service", "socket"], "print this one alone, as its file has it; both without"),
    host: HOST,
    port: PORT,
  },
  details: `The service starts the program that printed it. To install both:
  plant-store print systemd-unit --unit service > ${FOLDER}/plant-store.service
  plant-store print systemd-unit --unit socket > ${FOLDER}/plant-store.socket
  systemctl daemon-reload && systemctl enable --now plant-store.socket plant-store.service`,
  async run(_, { unit, host = "", port = 0 }) {
    if (isIP(host) === 0 || port === 0) {
      throw new UsageError(
        `print systemd-unit: expected --host to be an IP address and --port to be above 0, got ${host} and ${port}`,
      );
    }
    const units = {
      service: serviceUnit(ownCommand()),
      socket: socketUnit(formatHostPort(host, port)),
    };
    const text =
      unit === undefined
        ? Object.entries(units).map(([kind, text]) => `# ${FOLDER}/plant-store.${kind}\n${text}`)
        : [units[unit]];
    await printLines(text.join("\n").trimEnd().split("\n"));
    return 0;
  },
});

/** How this program was started: by itself as one executable, else as a script by Node. */
function ownCommand(): readonly string[] {
  // Not by comparing paths: an executable finds in argv[1] what was typed, whatever that leads to.
  // Not by an import: other runtimes lack the module, and `main` could not refuse them in words.
  if (process.getBuiltinModule("node:sea").isSea()) return [process.execPath, "serve"];
  return [process.execPath, ...process.execArgv, path.resolve(process.argv[1] ?? ""), "serve"];
}
