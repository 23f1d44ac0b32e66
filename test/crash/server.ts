/** A server in a process of its own, to be killed. */
import { type Ended, type Program, Run, type Surroundings } from "./program.ts";

export interface ServerOptions extends Surroundings {
  readonly args?: readonly string[];
}

export class Server {
  readonly run: Run;
  /** The port once the server listens; `undefined` if it ended before. */
  readonly ready: Promise<number | undefined>;

  constructor(program: Program, folder: string, options: ServerOptions = {}) {
    const { args = [], ...surroundings } = options;
    const words = ["serve", "--port", "0", "--data", folder, ...args];
    this.run = new Run(program, words, surroundings);
    this.ready = this.run
      .output(/"event":"listening".*"url":"[^"]+:([0-9]+)".*\n/)
      .then((match) => (match === undefined ? undefined : Number(match[1])));
  }

  get ended(): Promise<Ended> {
    return this.run.ended;
  }

  async kill(): Promise<Ended> {
    this.run.kill("SIGKILL");
    return this.ended;
  }

  async stop(): Promise<Ended> {
    this.run.kill("SIGTERM");
    return this.ended;
  }
}

/** Describes in one line the unexpected end of a process. */
export function describeEnd({ status, signal, stderr, isLate }: Ended): string {
  const how = isLate ? "did not end in time" : `ended with ${signal ?? `status ${status}`}`;
  return `${how}: ${stderr.trim().slice(-300)}`;
}
