/** What a program wrote to standard error, line by line, in either format of its log. */

/** The lines of a log in JSON; throws if a line is not JSON. */
export function logLinesOf(stderr: string): (Record<string, unknown> & { time: string })[] {
  const lines = stderr.split("\n");
  if (lines.pop() !== "") throw new Error(`expected whole lines, got ${stderr}`);
  return lines.map((line) => JSON.parse(line));
}

/** The messages of warnings and failures in a log of JSON; every other line as it is. */
export function messagesOf(stderr: string): string[] {
  const lines = stderr.split("\n").filter((line) => line !== "");
  return lines.flatMap((line) => {
    const { level, message } = line.startsWith("{") ? JSON.parse(line) : { message: line };
    return level === "info" ? [] : [String(message)];
  });
}

/** The URL of a server that is ready, by the line of its log in either format. */
export function readyUrl(stderr: string): string | undefined {
  return /^.*\blistening on (http[^\s",;]+).*\n/m.exec(stderr)?.[1];
}
