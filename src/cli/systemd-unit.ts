/**
 * The unit files that run the store under systemd: a service that may do
 * nothing but its work, and the socket that outlives it.
 *
 * The service needs the network, its state directory, and memory that is both
 * writable and executable, which is where V8 puts the code it compiles.
 */

/** Room for the machine itself, however large it is: what leaks is ended before the rest is. */
const MEMORY_MAX = "80%";

/** Every connection takes one; the default of 1,024 would refuse the next. */
const OPEN_FILES_MAX = 65_536;

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

# A user of its own, who owns /var/lib/plant-store, and /run/plant-store for admin.sock.
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
