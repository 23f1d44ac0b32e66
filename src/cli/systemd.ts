/**
 * What systemd hands to a service it starts: the socket that it holds
 * (sd_listen_fds(3)). The protocol is three variables, so it needs no library.
 *
 * That a service is ready, systemd would learn over a datagram socket of the
 * unix family, which Node has not; it need not: clients of a socket that
 * systemd holds wait in its queue until the service takes them.
 */
import { UsageError } from "./command.ts";

/** The first descriptor behind standard input, output and error. */
const FIRST_HELD = 3;

/**
 * The descriptor of the listening socket that this process was given, if any.
 * The variables are meant for this process alone and are gone afterwards.
 *
 * @throws UsageError when there are several: a server listens on one.
 */
export function takeHeldSocket(): number | undefined {
  const { LISTEN_PID: pid, LISTEN_FDS } = process.env;
  const count = LISTEN_FDS || "0"; // an empty variable is none, as everywhere in the program
  for (const name of ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"]) delete process.env[name];
  if (pid !== String(process.pid) || count === "0") return undefined;
  if (count === "1") return FIRST_HELD;
  throw new UsageError(`serve: expected one socket of the supervisor, got LISTEN_FDS=${count}`);
}
