/** What a program said on standard error, line by line, whatever its log looks like. */

/** One line of a server's log in JSON. */
export interface LogLine {
  readonly time: string;
  readonly level: string;
  readonly event: string;
  readonly [member: string]: unknown;
}

/** The lines of a log in JSON; throws where one is not. */
export function logLinesOf(stderr: string): LogLine[] {
  const lines = stderr.split("\n");
  if (lines.pop() !== "") throw new Error(`expected whole lines, got ${stderr}`);
  return lines.map((line) => JSON.parse(line));
}

/** Warnings and failures: of a log their messages, of a command its lines. */
export function messagesOf(stderr: string): string[] {
  return stderr
    .split("\n")
    .filter((line) => line !== "")
    .flatMap((line) => {
      if (!line.startsWith("{")) return [line];
      const { level, message } = JSON.parse(line);
      return level === "info" ? [] : [String(message)];
    });
}
