/** `plant-store print openapi|systemd-unit`: documents for other programs, ready to use. */
import { isIP } from "node:net";
import path from "node:path";
import { formatHostPort } from "../core/host-port.ts";
import { OPENAPI } from "../index.ts";
import { defineCommand, UsageError } from "./command.ts";
import { HOST, oneOf, PORT, textOption } from "./options.ts";
import { printLines } from "./output.ts";

export const printOpenapi = defineCommand({
  name: "print openapi",
  summary: "print the OpenAPI 3.1.0 document of the interface",
  options: {},
  async run() {
    await printLines(JSON.stringify(OPENAPI, undefined, 2).split("\n"));
  },
});

export const printDatabaseSchema = defineCommand({
  name: "print schema",
  summary: "print the SQL that creates the tables in a database",
  options: {
    engine: { ...oneOf(["postgresql", "citus"], "what the database is"), unset: "postgresql" },
    role: {
      ...textOption("NAME", "the role that the servers log in as"),
      defaultText: "plant_store",
    },
  },
  details: `Run it once, as the owner of the database, where that role exists:
  plant-store print schema | psql DATABASE`,
  async run(_, { engine, role }) {
    const { printSchema } = await import("../postgres/index.ts");
    await printLines(printSchema(engine, role).trimEnd().split("\n"));
  },
});

const FOLDER = "/etc/systemd/system";

export const printSystemdUnit = defineCommand({
  name: "print systemd-unit",
  summary: "print a hardened unit for systemd, and its socket unit",
  options: {
    unit: oneOf(["service", "socket"], "print only this unit"),
    host: HOST,
    port: PORT,
  },
  details: `The service starts the program that printed it. To install both:
  plant-store print systemd-unit --unit service > ${FOLDER}/plant-store.service
  plant-store print systemd-unit --unit socket > ${FOLDER}/plant-store.socket
  systemctl daemon-reload && systemctl enable --now plant-store.socket plant-store.service`,
  async run(_, { unit, host, port }) {
    if (isIP(host) === 0 || port === 0) {
      throw new UsageError(
        `print systemd-unit: expected --host to be an IP address and --port to be above 0, got ${host} and ${port}`,
      );
    }
    const units = {
      service: serviceUnit(ownCommand()),
      socket: socketUnit(formatHostPort(host, port)),
    };
    const texts = Object.entries(units)
      .filter(([kind]) => kind === (unit ?? kind))
      .map(([kind, text]) => `# ${FOLDER}/plant-store.${kind}\n${text}`);
    await printLines(texts.join("\n").trimEnd().split("\n"));
  },
});

/** How this program was started: as one executable, or as a script by Node. */
function ownCommand(): readonly string[] {
  // Not from argv[1], which is what was typed if this is an executable. Not by an import, which
  // would fail under other runtimes before `main` could refuse them.
  if (process.getBuiltinModule("node:sea").isSea()) return [process.execPath, "serve"];
  return [process.execPath, ...process.execArgv, path.resolve(process.argv[1] ?? ""), "serve"];
}

/** The service may do nothing but its work. */
const SANDBOX = `# A user of its own, who owns /var/lib/plant-store, and /run/plant-store for admin.sock.
DynamicUser=yes
StateDirectory=plant-store
StateDirectoryMode=0700
RuntimeDirectory=plant-store
UMask=0077

# Limits. Each connection takes a file. A core dump would hold tokens and the TLS key.
LimitNOFILE=65536
LimitCORE=0
MemoryMax=80%
TasksMax=64

# It can write only to those two directories, and sees nothing of other users and processes.
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
DevicePolicy=closed
ProtectProc=invisible
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RemoveIPC=yes

# No privileges, now or later. The unix family is for the lock and the admin socket.
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
PrivateUsers=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
KeyringMode=private
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
# V8 compiles into memory that it then executes.
MemoryDenyWriteExecute=no
`;

/** @param command the program and its arguments. */
export function serviceUnit(command: readonly string[]): string {
  return `[Unit]
Description=Plant store
Requires=plant-store.socket
After=network.target plant-store.socket

[Service]
# Not notify, which Node cannot send. While a start reads the log, clients wait in the socket's queue.
Type=exec
ExecStart=${command.map(quote).join(" ")}
ExecReload=/bin/kill -HUP $MAINPID
# After 3 s, so never five starts in 10 s: systemd would give up.
Restart=on-failure
RestartSec=3
# Status 2 and 3 need a person: neither systemd nor the next client starts it again (+: as root).
RestartPreventExitStatus=2 3
ExecStopPost=+/bin/sh -c 'case $$EXIT_STATUS in 2|3) systemctl --no-block stop plant-store.socket;; esac'
# A drain takes up to 10 s; the rest is for a slow disk. A kill then loses no plant.
TimeoutStopSec=90

${SANDBOX}
[Install]
WantedBy=multi-user.target
`;
}

/** @param address as ListenStream= takes it. */
export function socketUnit(address: string): string {
  return `[Unit]
Description=Plant store socket

[Socket]
ListenStream=${address}
FreeBind=yes
NoDelay=yes
Backlog=4096

[Install]
WantedBy=sockets.target
`;
}

/** A word of ExecStart= in which no character has a meaning (systemd.service(5)). */
function quote(word: string): string {
  const escaped = word.replace(/["\\]/g, "\\$&").replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[A-Za-z0-9_./@%$:+=-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}
