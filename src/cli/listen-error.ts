/** Why an address cannot be had, for the person who chose it. */

/** @param option what chose the port. */
export function describeListenError(
  error: NodeJS.ErrnoException,
  address: string,
  option = "--port",
): Error {
  switch (error.code) {
    case "EADDRINUSE":
      return new Error(
        `Cannot listen on ${address}: another program does; choose another ${option}, or stop it`,
      );
    case "EACCES":
      return new Error(
        `Cannot listen on ${address}: permission denied; choose a port from 1024 up in ${option}`,
      );
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new Error(
        `Cannot listen on ${address}: this machine has no such address; see ${option === "--port" ? "--host" : option}`,
      );
    case "EBADF":
    case "EINVAL":
    case "ENOTSOCK":
      return new Error(`Cannot listen on ${address}: it is no listening socket`);
    default:
      return error;
  }
}
