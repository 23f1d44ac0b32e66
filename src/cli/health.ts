/**
 * `plant-store health`: whether a server responds, for supervisors and people.
 *
 * A server that cannot store anything at the moment still responds to a request without a token. Only an
 * admin listener reports whether the server is ready, and its state if not.
 */
import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { text } from "node:stream/consumers";
import { ERRORS } from "../core/errors.ts";
import { formatHostPort } from "../core/text.ts";
import { defineCommand } from "./command.ts";
import { ADMIN, BASE_PATH, HOST, PORT, TLS_CERT } from "./options.ts";
import { printLines } from "./output.ts";

const TIMEOUT_MS = 2000;

export const health = defineCommand({
  name: "health",
  summary: "ask a running server whether it responds; exit status 1 if not",
  options: {
    host: { ...HOST, help: "the address the server listens on" },
    port: { ...PORT, help: "the port the server listens on" },
    basePath: BASE_PATH,
    tlsCert: { ...TLS_CERT, help: "the server has a certificate: ask by https" },
    admin: { ...ADMIN, help: "ask the admin listener whether the server is ready" },
  },
  readsVariables: true,
  details:
    "Needs no token. Over https the certificate is not checked: nothing secret is sent. With the variables of serve it asks that server.",
  async run(_, { host, port, basePath = "", tlsCert, admin }) {
    if (admin !== undefined) {
      const url = `http://${formatHostPort(admin.host, admin.port)}`;
      const { state, message } = await ask(url, "/readyz");
      if (state === undefined) throw otherServer(url);
      if (state !== "ready") throw new Error(`${url} is not ready, it is ${state}: ${message}`);
      await printLines([`${url} is ready`]);
      return;
    }
    const reached = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
    const scheme = tlsCert === undefined ? "http" : "https";
    const url = `${scheme}://${formatHostPort(reached, port)}${basePath}`;
    const { error } = await ask(url, "/plants");
    if (error !== ERRORS.missing_token) throw otherServer(url);
    await printLines([`${url} responds`]);
  },
});

function otherServer(url: string): Error {
  return new Error(`${url} responded, but it is not a plant store`);
}

/** The members of the JSON object in the response; none if it is something else. @throws Error naming the server. */
async function ask(url: string, path: string): Promise<Readonly<Record<string, unknown>>> {
  const client = url.startsWith("https:") ? https : http;
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  try {
    const req = client.get(`${url}${path}`, { rejectUnauthorized: false, signal });
    req.on("error", () => {}); // an error after the headers also ends the reading of the body
    const [res] = (await once(req, "response")) as [IncomingMessage];
    return parseObject(await text(res));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = code === "ECONNREFUSED" ? "nothing listens there" : message;
    const late = `no response within ${TIMEOUT_MS / 1000} s`;
    throw new Error(`${url} does not respond: ${signal.aborted ? late : why}`);
  }
}

function parseObject(json: string): Readonly<Record<string, unknown>> {
  try {
    return { ...JSON.parse(json) };
  } catch {
    return {};
  }
}
