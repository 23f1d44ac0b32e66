/**
 * `plant-store health`: whether a server answers, for supervisors and people.
 *
 * A server that cannot store anything at the moment still answers a request without a token. Only an
 * admin listener reports whether the server is ready, and its state if not.
 */
import { once } from "node:events";
import http, { type IncomingMessage } from "node:http";
import https from "node:https";
import { urlToHttpOptions } from "node:url";
import { HEALTH_REQUEST_ID } from "../core/channels.ts";
import { ERROR_NUMBERS } from "../core/errors.ts";
import { type AdminAddress, formatAdminAddress } from "../core/options.ts";
import { formatHostPort } from "../core/text.ts";
import { defineCommand, type OptionValues } from "./command.ts";
import { DATABASE_OPTIONS, type OpenDatabase, withDatabase } from "./database.ts";
import { ADMIN, BASE_PATH, HOST, integer, PORT, TLS_CERT } from "./options.ts";
import { printLines } from "./output.ts";

/** More than any answer of ours. */
const ANSWER_BYTES_MAX = 4096;
/** The shortest deadline that a store over a database accepts. */
const DEADLINE_MS_MIN = 100;

const OPTIONS = {
  url: {
    placeholder: "URL",
    help: "the server's base URL; if not given, made of the four options below",
    expected: "a URL such as http://127.0.0.1:8080, without user, query or fragment",
    parse: parseUrl,
  },
  host: { ...HOST, help: "the address the server listens on" },
  port: { ...PORT, help: "the port the server listens on" },
  basePath: BASE_PATH,
  tlsCert: { ...TLS_CERT, help: "the server has a certificate: ask by https" },
  ...DATABASE_OPTIONS,
  admin: { ...ADMIN, help: "without --url: ask the admin listener whether the server is ready" },
  timeoutMs: {
    ...integer("MS", "how long an answer may take", { min: 1, max: 600_000 }),
    defaultText: "2000",
  },
};

export const health = defineCommand({
  name: "health",
  summary: "ask a running server whether it answers; exit status 1 if not",
  options: OPTIONS,
  details:
    "Needs no token. With --database it asks the database, not a server. Over https the certificate is not checked: nothing secret is sent.",
  async run(_, options, settings) {
    const { url, admin, timeoutMs } = options;
    // Only flags count: the health check of a server often has the server's variables.
    if (settings.some(({ source }) => source.startsWith("--database"))) {
      const limit = { databaseDeadlineMs: Math.max(timeoutMs, DEADLINE_MS_MIN) };
      await printLines([await withDatabase(options, settings, askDatabase, limit)]);
      return;
    }
    const isAdminMeant = admin !== undefined && url === undefined;
    const outcome = isAdminMeant
      ? await askAdmin(admin, timeoutMs)
      : await askService(url ?? baseUrl(options), timeoutMs);
    await printLines([outcome]);
  },
});

/** @throws Error if something else answers, or nothing. */
async function askService(url: string, timeoutMs: number): Promise<string> {
  const { status, members } = await ask(url, httpTarget(`${url}/plants`), timeoutMs);
  // A server that expects HTTPS answers plain HTTP with this.
  if (members.error === ERROR_NUMBERS.bad_request)
    throw new Error(`${url} answers: ${members.message}`);
  if (status !== 401 || members.error !== ERROR_NUMBERS.missing_token) throw otherServer(url);
  return `${url} answers`;
}

/** A database that opens is fit to be used. */
async function askDatabase({ plants }: OpenDatabase): Promise<string> {
  const { host, isSynchronous } = plants.state();
  return `the database on ${host} can be used, ${isSynchronous ? "with" : "without"} a synchronous standby`;
}

/** @throws Error with the state of the server, if it is not ready. */
async function askAdmin(address: AdminAddress, timeoutMs: number): Promise<string> {
  const url = formatAdminAddress(address);
  const isPath = "socketPath" in address;
  const target = isPath ? { ...address, path: "/readyz" } : httpTarget(`${url}/readyz`);
  const { status, members } = await ask(url, target, timeoutMs);
  const { state, message } = members;
  if (state === undefined) throw otherServer(url);
  if (status !== 200) throw new Error(`${url} is not ready, it is ${state}: ${message}`);
  return `${url} is ready`;
}

function otherServer(url: string): Error {
  return new Error(`${url} answers, but not as a plant store does`);
}

function httpTarget(url: string): https.RequestOptions {
  return urlToHttpOptions(new URL(url));
}

interface Answer {
  readonly status: number | undefined;
  /** The members of the JSON object in the body; none if it is something else. */
  readonly members: Readonly<Record<string, unknown>>;
}

/** @throws Error naming the server, if there is no answer. */
async function ask(url: string, target: https.RequestOptions, timeoutMs: number): Promise<Answer> {
  const client = target.protocol === "https:" ? https : http;
  const signal = AbortSignal.timeout(timeoutMs);
  // Not the global agent, which uses the proxy of HTTP_PROXY if NODE_USE_ENV_PROXY is set.
  const agent = new client.Agent();
  const headers = { "X-Request-Id": HEALTH_REQUEST_ID };
  const req = client.get({ ...target, headers, rejectUnauthorized: false, signal, agent });
  req.on("error", () => {}); // an error after the headers also ends the loop over the body
  try {
    const [res] = (await once(req, "response")) as [IncomingMessage];
    let text = "";
    for await (const part of res.setEncoding("utf8")) {
      text += part;
      if (text.length > ANSWER_BYTES_MAX) throw new Error("its answer does not end");
    }
    return { status: res.statusCode, members: parseObject(text) };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = signal.aborted ? "it takes too long" : describeFault(code, message);
    throw new Error(`${url} does not answer: ${why}`);
  }
}

function describeFault(code: string | undefined, message: string): string {
  if (code === "ECONNREFUSED") return "nothing listens there";
  const isPlain = /wrong version number|packet length too long/.test(message); // OpenSSL's words
  return isPlain ? "it speaks plain HTTP; ask by http://, without --tls-cert" : message;
}

function parseObject(text: string): Answer["members"] {
  try {
    return { ...JSON.parse(text) };
  } catch {
    return {};
  }
}

/** Where a server with the same options is reached from this machine. */
function baseUrl({ host, port, basePath = "", tlsCert }: OptionValues<typeof OPTIONS>): string {
  const reached = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  const scheme = tlsCert === undefined ? "http" : "https";
  return `${scheme}://${formatHostPort(reached, port)}${basePath}`;
}

/** Without user, query and fragment, which would not be sent. */
function parseUrl(text: string): string | undefined {
  const isBase = /^https?:\/\/[^/@?#]+(\/[^?#]*)?$/.test(text) && URL.canParse(text);
  return isBase ? text.replace(/\/+$/, "") : undefined;
}
