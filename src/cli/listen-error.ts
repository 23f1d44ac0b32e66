/** Why an address cannot be had, for the person who chose it. */

/**
 * @param address a path as `unix:PATH`.
 * @param option what chose the port or the path.
 */
export function describeListenError(
  error: NodeJS.ErrnoException,
  address: string,
  option = "--port",
): Error {
  const cannot = `Cannot listen on ${address}:`;
  const isPath = address.startsWith("unix:");
  switch (error.code) {
    case "EADDRINUSE":
      return new Error(
        isPath
          ? `${cannot} another program does, or it is no socket; choose another ${option}`
          : `${cannot} another program does; choose another ${option}, or stop it`,
      );
    case "EACCES": // libuv says so of a folder that is missing, too
      return new Error(
        isPath
          ? `${cannot} its folder is missing or closed to this user; see ${option}`
          : `${cannot} permission denied; choose a port from 1024 up in ${option}`,
      );
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new Error(
        `${cannot} this machine has no such address; see ${option === "--port" ? "--host" : option}`,
      );
    case "EBADF":
    case "EINVAL":
    case "ENOTSOCK":
      return new Error(`${cannot} it is no listening socket`);
    default:
      return error;
  }
}
