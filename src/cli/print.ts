/** `plant-store print openapi|schema|systemd-unit`: documents for other programs, ready to use. */
import path from "node:path";
import { isSea } from "node:sea";
import { OPENAPI } from "../index.ts";
import { printSchema } from "../postgres/index.ts";
import { defineCommand } from "./command.ts";
import { printLines } from "./output.ts";

const printOpenapi = defineCommand({
  name: "print openapi",
  summary: "print the OpenAPI 3.1.0 document",
  options: {},
  async run() {
    await printLines(JSON.stringify(OPENAPI, undefined, 2).split("\n"));
  },
});

const printDatabaseSchema = defineCommand({
  name: "print schema",
  summary: "print the SQL for a database",
  options: {
    role: {
      placeholder: "NAME",
      help: "the role that the servers log in as",
      defaultText: "plant_store",
      expected: 'a name without quotes, "$", "\\" and control characters',
      parse: (name: string) => printSchema(name) && name,
    },
  },
  details: `Run the SQL once, as the owner of the database, after the role was created:
  plant-store print schema > schema.sql && psql DATABASE -v ON_ERROR_STOP=1 -f schema.sql`,
  async run(_, { role }) {
    await printLines(printSchema(role).trimEnd().split("\n"));
  },
});

const UNIT_FILE = "/etc/systemd/system/plant-store.service";

const printSystemdUnit = defineCommand({
  name: "print systemd-unit",
  summary: "print a hardened service for systemd",
  options: {},
  details: `The service starts the program that printed it, as the user plant-store:
  useradd --system plant-store
  plant-store print systemd-unit > ${UNIT_FILE}
  systemctl daemon-reload && systemctl enable --now plant-store`,
  async run() {
    await printLines(serviceUnit([...ownCommand(), "serve"]).split("\n"));
  },
});

/** How to start this program again: as one executable, or as a script by Node. */
function ownCommand(): string[] {
  // Not from argv[1], which is what was typed if this is an executable.
  if (isSea()) return [process.execPath];
  return [process.execPath, path.resolve(process.argv[1] ?? "")];
}

/** @param command the program and its arguments. */
function serviceUnit(command: readonly string[]): string {
  return `[Unit]
Description=Plant store
After=network.target

[Service]
# Not notify, which Node cannot send.
Type=exec
ExecStart=${command.map((word) => `"${word}"`).join(" ")}
# This user owns /var/lib/plant-store. If a group may read the TLS key, give the group to the service:
# SupplementaryGroups=
User=plant-store
StateDirectory=plant-store
StateDirectoryMode=0700
UMask=0077

# After 3 s, so never five starts in 10 s: systemd would give up.
Restart=on-failure
RestartSec=3
# Status 2 and 3 need manual repair, and so does 9, Node's own for a flag that it does not know.
RestartPreventExitStatus=2 3 9
# A drain takes up to 10 s; the rest is for a slow disk. A kill then loses no plant.
TimeoutStopSec=90
# journald would drop lines of a busy log, with the last ones of a stop.
LogRateLimitIntervalSec=0

# Limits. Each connection takes a file. A core dump would hold tokens and the TLS key.
LimitNOFILE=65536
LimitCORE=0
MemoryMax=80%
TasksMax=64

# It can write only to its state directory, and sees nothing of other users and processes.
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectProc=invisible
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RemoveIPC=yes

# No privileges, now or later. The unix family is for the lock. V8 needs memory that it may write and execute,
# so there is no MemoryDenyWriteExecute.
CapabilityBoundingSet=
NoNewPrivileges=yes
PrivateUsers=yes
RestrictSUIDSGID=yes
RestrictNamespaces=yes
RestrictRealtime=yes
LockPersonality=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM

[Install]
WantedBy=multi-user.target`;
}

/** In the order of the help. */
export const commands = [printOpenapi, printDatabaseSchema, printSystemdUnit];
