/**
 * `plant-store print openapi|systemd-unit`: documents for other programs, ready to use.
 *
 * The units are a service that may do nothing but its work, and the socket that outlives it. The
 * service needs the network, its state directory, and memory that is both writable and executable,
 * which is where V8 puts the code it compiles.
 */
import { isIP } from "node:net";
import path from "node:path";
import { formatHostPort } from "../core/host-port.ts";
import { OPENAPI } from "../index.ts";
import { defineCommand, UsageError } from "./command.ts";
import { HOST, oneOf, PORT } from "./options.ts";
import { printLines } from "./output.ts";

export const printOpenapi = defineCommand({
  name: "print openapi",
  summary: "print the OpenAPI 3.1.0 document of the interface",
  options: {},
  async run() {
    await printLines(JSON.stringify(OPENAPI, undefined, 2).split("\n"));
    return 0;
  },
});

const FOLDER = "/etc/systemd/system";

export const printSystemdUnit = defineCommand({
  name: "print systemd-unit",
  summary: "print a hardened unit for systemd, and its socket unit",
  options: {
    unit: { ...oneOf(["service", "socket"], "print only this unit"), unset: "both" },
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

/** Room for the machine itself, however large it is: what leaks is ended before the rest is. */
const MEMORY_MAX = "80%";

/** Every connection takes one; the default of 1,024 would refuse the next. */
const OPEN_FILES_MAX = 65_536;

const SANDBOX = `# A user of its own, who owns /var/lib/plant-store, and /run/plant-store for admin.sock.
DynamicUser=yes
StateDirectory=plant-store
StateDirectoryMode=0700
RuntimeDirectory=plant-store
UMask=0077

# Limits.
LimitNOFILE=${OPEN_FILES_MAX}
# A core dump would hold tokens and the TLS key.
LimitCORE=0
MemoryMax=${MEMORY_MAX}
TasksMax=64

# Nothing to write but those two directories, nothing to see of other users and processes.
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

# No privilege, now or later.
CapabilityBoundingSet=
AmbientCapabilities=
NoNewPrivileges=yes
PrivateUsers=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
KeyringMode=private
# The unix family is for the lock of the data directory and the admin socket.
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
# V8 compiles to memory that it then executes.
MemoryDenyWriteExecute=no
`;

/** @param command the program and its words, each as the kernel takes it. */
export function serviceUnit(command: readonly string[]): string {
  return `[Unit]
Description=Plant store
Requires=plant-store.socket
After=network.target plant-store.socket

[Service]
# Not notify: Node cannot send its datagram, and clients wait in the queue of the socket while a
# start reads the log, so no start is too long for systemd.
Type=exec
ExecStart=${command.map(quote).join(" ")}
ExecReload=/bin/kill -HUP $MAINPID
# Five starts fit no 10 seconds: a disk fault of a minute does not end it for good.
Restart=on-failure
RestartSec=3
# Status 2 and 3 need a person: no start by systemd, nor by the next client (+: as root).
RestartPreventExitStatus=2 3
ExecStopPost=+/bin/sh -c 'case $$EXIT_STATUS in 2|3) systemctl --no-block stop plant-store.socket;; esac'
# A stop answers what is in flight, for 10 seconds at most; the rest is for a slow disk. Killed there
# it loses no plant.
TimeoutStopSec=90

${SANDBOX}
[Install]
WantedBy=multi-user.target
`;
}

/** @param address what to listen on, as ListenStream= takes it. */
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

/** A word of ExecStart=: its quotes, specifiers and variables mean nothing (systemd.service(5)). */
function quote(word: string): string {
  const escaped = word.replace(/["\\]/g, "\\$&").replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[A-Za-z0-9_./@%$:+=-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}
