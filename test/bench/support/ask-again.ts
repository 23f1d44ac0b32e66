/** One request again and again, on a connection of its own, beside another measurement. */
import { once } from "node:events";
import http from "node:http";
import { type Ongoing, untilStopped } from "./until-stopped.ts";

/**
 * Asks until it is stopped, which resolves with how long each answer took to begin, in
 * milliseconds, and fails if one had another status or the connection failed.
 */
export function askAgain(
  request: http.RequestOptions,
  status: number,
  intervalMs: number,
): Ongoing<number[]> {
  return untilStopped(async (isOver) => {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    const answers: number[] = [];
    try {
      while (!isOver()) {
        const sent = performance.now();
        const [answer] = await once(http.request({ ...request, agent }).end(), "response");
        answers.push(performance.now() - sent);
        if (answer.statusCode !== status) {
          throw new Error(`expected ${status}, got ${answer.statusCode}`);
        }
        await once(answer.resume(), "end");
        await new Promise((resolve) => setTimeout(resolve, intervalMs));
      }
    } finally {
      agent.destroy();
    }
    return answers;
  });
}
