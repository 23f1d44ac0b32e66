/**
 * `plant-store print openapi|schema|systemd-unit|completion`: documents for other programs, ready to use.
 *
 * The script for a shell completes commands, options and values, and paths where it has no word to offer.
 * It is for bash; zsh emulates bash to run it.
 */
import { isIP } from "node:net";
import path from "node:path";
import { isSea } from "node:sea";
import { formatHostPort } from "../core/text.ts";
import { OPENAPI } from "../index.ts";
import { type Command, defineCommand, flagOf, UsageError } from "./command.ts";
import { HOST, KEEP, oneOf, PORT, textOption } from "./options.ts";
import { printLines } from "./output.ts";

const printOpenapi = defineCommand({
  name: "print openapi",
  summary: "print the OpenAPI 3.1.0 document of the interface",
  options: {},
  async run() {
    await printLines(JSON.stringify(OPENAPI, undefined, 2).split("\n"));
  },
});

const printDatabaseSchema = defineCommand({
  name: "print schema",
  summary: "print the SQL that creates the tables in a database",
  options: {
    engine: {
      ...oneOf(["postgresql", "citus"], "the engine of the database"),
      defaultText: "postgresql",
    },
    role: {
      ...textOption("NAME", "the role that the servers log in as"),
      defaultText: "plant_store",
    },
  },
  details: `Run the SQL once, as the owner of the database, after the role was created:
  plant-store print schema > schema.sql && psql DATABASE -v ON_ERROR_STOP=1 -f schema.sql`,
  async run(_, { engine, role }) {
    const { printSchema } = await import("../postgres/index.ts");
    await printLines(printSchema(engine, role).trimEnd().split("\n"));
  },
});

const FOLDER = "/etc/systemd/system";
const USER_FILE = "/etc/sysusers.d/plant-store.conf";

const printSystemdUnit = defineCommand({
  name: "print systemd-unit",
  summary: "print hardened units for systemd: user, service, socket, a backup and its timer",
  options: {
    unit: oneOf(["user", "service", "socket", "backup", "timer"], "print only this unit"),
    host: HOST,
    port: PORT,
    keep: KEEP,
  },
  details: `The services start the program that printed them, as the user plant-store. To install the server:
  mkdir -p ${path.dirname(USER_FILE)}
  plant-store print systemd-unit --unit user > ${USER_FILE} && systemd-sysusers
  plant-store print systemd-unit --unit service > ${FOLDER}/plant-store.service
  plant-store print systemd-unit --unit socket > ${FOLDER}/plant-store.socket
  systemctl daemon-reload && systemctl enable --now plant-store.socket plant-store.service
To back it up once a day, into /var/lib/plant-store-backup:
  plant-store print systemd-unit --unit backup > ${FOLDER}/plant-store-backup.service
  plant-store print systemd-unit --unit timer > ${FOLDER}/plant-store-backup.timer
  systemctl daemon-reload && systemctl enable --now plant-store-backup.timer`,
  async run(_, { unit, host, port, keep }) {
    if (isIP(host) === 0 || port === 0) {
      throw new UsageError(
        `print systemd-unit: expected --host to be an IP address and --port to be above 0, got ${host} and ${port}`,
      );
    }
    const program = ownCommand();
    const units = [
      ["user", USER_FILE, SYSTEM_USER],
      ["service", `${FOLDER}/plant-store.service`, serviceUnit([...program, "serve"])],
      ["socket", `${FOLDER}/plant-store.socket`, socketUnit(formatHostPort(host, port))],
      ["backup", `${FOLDER}/plant-store-backup.service`, backupUnit(program, keep)],
      ["timer", `${FOLDER}/plant-store-backup.timer`, TIMER_UNIT],
    ] as const;
    const texts = units
      .filter(([kind]) => kind === (unit ?? kind))
      .map(([, name, text]) => `# ${name}\n${text}`);
    await printLines(texts.join("\n").trimEnd().split("\n"));
  },
});

/** Keeps Node's debugger closed also before `main` does. */
const NO_DEBUGGER = "--disable-sigusr1";

/** How to start this program again: as one executable, or as a script by Node. */
function ownCommand(): readonly string[] {
  // Not from argv[1], which is what was typed if this is an executable.
  if (isSea()) return [process.execPath];
  const flags = [...process.execArgv];
  if (isKnown(NO_DEBUGGER) && !flags.includes(NO_DEBUGGER)) flags.push(NO_DEBUGGER);
  return [process.execPath, ...flags, path.resolve(process.argv[1] ?? "")];
}

/** Whether this Node accepts a flag, also in NODE_OPTIONS. */
function isKnown(flag: string): boolean {
  return process.allowedNodeEnvironmentFlags.has(flag);
}

/** A variable, because an executable takes no flags of Node. The image sets the same. */
const HEAP_LIMIT = `# At most 40 % of the memory are for the heap. By itself V8 takes 256 MiB, however small the limit is.
Environment=NODE_OPTIONS=--max-old-space-size-percentage=40
`;

/** As sysusers.d(5) takes it. */
const SYSTEM_USER = `u plant-store - "Plant store"
`;

/** The service may do nothing but its work. */
const SANDBOX = `# This user owns /var/lib/plant-store, and /run/plant-store for admin.sock. If a group may read the TLS key,
# give the group to the service: SupplementaryGroups=
User=plant-store
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
# Status 2 and 3 need a person, and so does 9, Node's own for a flag that it does not know: neither
# systemd nor the next client starts it again (+: as root).
RestartPreventExitStatus=2 3 9
ExecStopPost=+/bin/sh -c 'case $$EXIT_STATUS in 2|3|9) systemctl --no-block stop plant-store.socket;; esac'
# A drain takes up to 10 s; the rest is for a slow disk. A kill then loses no plant.
TimeoutStopSec=90
${isKnown("--max-old-space-size-percentage") ? HEAP_LIMIT : ""}
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

/**
 * @param program without a command.
 * @param keep how many backups are kept.
 */
function backupUnit(program: readonly string[], keep: number): string {
  return `[Unit]
Description=Backup of the plant store

[Service]
Type=oneshot
# The user of the service, which itself has no right to write here (ProtectSystem=strict).
User=plant-store
StateDirectory=plant-store-backup
StateDirectoryMode=0700
UMask=0077
ExecStart=${program.map(quote).join(" ")} backup --data /var/lib/plant-store --into \${STATE_DIRECTORY} --keep ${keep}

CapabilityBoundingSet=
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_UNIX
LimitCORE=0
IOSchedulingClass=idle
`;
}

const TIMER_UNIT = `[Unit]
Description=Daily backup of the plant store

[Timer]
OnCalendar=daily
RandomizedDelaySec=10m
# A backup that was due while the machine was off is made after its start.
Persistent=yes

[Install]
WantedBy=timers.target
`;

/** A word of ExecStart= in which no character has a meaning (systemd.service(5)). */
function quote(word: string): string {
  const escaped = word.replace(/["\\]/g, "\\$&").replaceAll("%", "%%").replaceAll("$", "$$$$");
  return /^[A-Za-z0-9_./@%$:+=-]+$/.test(escaped) ? escaped : `"${escaped}"`;
}

/** In the order of the help. @param all loads all commands, including these. */
export function printCommands(all: () => Promise<readonly Command[]>): Command[] {
  return [printOpenapi, printDatabaseSchema, printSystemdUnit, definePrintCompletion(all)];
}

/** What each shell runs before the script. */
const PRELUDES = new Map([
  ["bash", []],
  ["zsh", ["autoload -Uz bashcompinit && bashcompinit"]],
]);
const SHELLS = [...PRELUDES.keys()];

function definePrintCompletion(commands: () => Promise<readonly Command[]>): Command {
  return defineCommand({
    name: "print completion",
    summary: "print a completion script for a shell",
    arguments: [SHELLS.join("|")],
    options: {},
    details: "For this shell, or in its start file: source <(plant-store print completion bash)",
    async run([shell = ""]) {
      const prelude = PRELUDES.get(shell);
      if (prelude === undefined) {
        throw new UsageError(`print completion: expected ${SHELLS.join(" or ")}, got "${shell}"`);
      }
      await printLines([
        ...prelude,
        ...completionScript(await commands())
          .trimEnd()
          .split("\n"),
      ]);
    },
  });
}

type Row = readonly [words: string, candidates: string];

/** What may follow some words: commands, the arguments and options of a command, their values. */
function rowsOf(commands: readonly Command[]): Row[] {
  const heads = [...new Set(commands.map(({ name }) => name.split(" ")[0] ?? ""))];
  const groups = heads.map((head): Row => {
    const group = commands.filter(({ name }) => name.startsWith(`${head} `));
    return [` ${head}`, group.map(({ name }) => name.slice(head.length + 1)).join(" ")];
  });
  const details = commands.flatMap(({ name, arguments: expected = [], options }): Row[] => [
    [` ${name}`, ["help", ...Object.keys(options)].map(flagOf).join(" ")],
    ...expected.map((argument, at): Row => [` ${name} <${at}>`, wordsOf(argument)]),
    ...Object.entries(options).map(([option, { placeholder }]): Row => {
      const values = placeholder === undefined ? "" : wordsOf(placeholder) || "<value>";
      return [` ${name} ${flagOf(option)}`, values];
    }),
  ]);
  const all: Row[] = [["", `${heads.join(" ")} help --help --version`], ...groups, ...details];
  return all.filter(([, candidates]) => candidates !== "");
}

/** `bash zsh` for `bash|zsh`; nothing if any text may be a value. */
function wordsOf(placeholder: string): string {
  return placeholder.includes("|") ? placeholder.replaceAll("|", " ") : "";
}

function completionScript(commands: readonly Command[]): string {
  const branches = rowsOf(commands).map(([words, text]) => `    "${words}") echo "${text}" ;;\n`);
  return `_plant_store_table() { # what may follow these words
  case "$1" in
${branches.join("")}  esac
}
_plant_store() {
  local IFS=$' \\t\\n' current="\${COMP_WORDS[COMP_CWORD]}" prefix="" command="" option="" place=0 word
  case "$current" in
    =) current="" ;; # bash makes three words of --data=x, and zsh one
    --*=*) prefix="\${current%%=*}=" current="\${current#*=}" ;;
  esac
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}" \${prefix%=}; do
    if [ "$word" = "=" ]; then continue; fi
    if [ -n "$option" ]; then option=""; continue; fi
    case "$word" in
      --*=*) ;;
      --*) [ -z "$(_plant_store_table "$command $word")" ] || option="$word" ;;
      *)
        if [ -n "$(_plant_store_table "$command $word")" ]; then command="$command $word"
        else place=$((place + 1)); fi ;;
    esac
  done
  local values="$(_plant_store_table "$command <$place>")"
  case "$current" in -*) values="" ;; esac
  [ -z "$option" ] || values="$(_plant_store_table "$command $option")"
  COMPREPLY=()
  for word in \${values:-$(_plant_store_table "$command")}; do
    case "$word" in
      "<"*) ;;
      "$current"*) COMPREPLY+=("$prefix$word") ;;
    esac
  done
}
complete -o default -F _plant_store plant-store
`;
}
