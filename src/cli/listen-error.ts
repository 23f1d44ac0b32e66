/** Why an address cannot be had, for the person who chose it. */

export function describeListenError(error: NodeJS.ErrnoException, address: string): Error {
  switch (error.code) {
    case "EADDRINUSE":
      return new Error(
        `Cannot listen on ${address}: another program does; choose another --port, or stop it`,
      );
    case "EACCES":
      return new Error(
        `Cannot listen on ${address}: permission denied; choose a --port from 1024 up`,
      );
    case "EADDRNOTAVAIL":
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return new Error(`Cannot listen on ${address}: this machine has no such address; see --host`);
    case "EBADF":
    case "EINVAL":
    case "ENOTSOCK":
      return new Error(`Cannot listen on ${address}: it is no listening socket`);
    default:
      return error;
  }
}
