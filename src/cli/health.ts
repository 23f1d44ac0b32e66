/** `plant-store health`: whether a server is ready, by its admin listener. Nothing that it asks is logged. */
import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { formatHostPort } from "../core/text.ts";
import { defineCommand } from "./command.ts";
import { ADMIN } from "./options.ts";
import { printLines } from "./output.ts";

const TIMEOUT_MS = 2000;

export const health = defineCommand({
  name: "health",
  summary: "ask a server whether it is ready; exit status 1 if not",
  options: { admin: { ...ADMIN, defaultText: "127.0.0.1:9180" } },
  readsVariables: true,
  details: "Needs no token. The server must have been started with --admin.",
  async run(_, { admin: { host, port } }) {
    const url = `http://${formatHostPort(host, port)}`;
    const { state, message } = await ask(url);
    if (state === undefined) throw new Error(`${url} responded, but it is not a plant store`);
    if (state !== "ready") throw new Error(`${url} is not ready, it is ${state}: ${message}`);
    await printLines([`${url} is ready`]);
  },
});

/** The members of the JSON object in the response; none if it is something else. @throws Error naming the server. */
async function ask(url: string): Promise<Readonly<Record<string, unknown>>> {
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    // Not fetch: if the server hangs up, Node may end with status 0 before its promise rejects.
    const req = http.get(`${url}/readyz`, { signal });
    req.on("error", () => {}); // an error after the headers also ends the reading of the body
    const [res] = (await once(req, "response")) as [IncomingMessage];
    const body = await text(res);
    return body.startsWith("{") ? JSON.parse(body) : {};
  } catch (error) {
    if (error instanceof SyntaxError) return {};
    const why = signal.aborted ? `no response within ${TIMEOUT_MS} ms` : (error as Error).message;
    throw new Error(`${url} does not respond: ${why}; serve needs --admin with this address`);
  }
}
