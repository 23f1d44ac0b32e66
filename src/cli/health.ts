/**
 * `plant-store health`: whether a server answers, for supervisors and people.
 *
 * It asks without a token and expects the error number of a plant store, which also one answers that
 * can store nothing at the moment. An admin listener knows more: whether the server is ready, and
 * what it is at if not. A proxy is never asked, whatever the environment says.
 */
import http from "node:http";
import https from "node:https";
import { urlToHttpOptions } from "node:url";
import { type AdminAddress, formatAdminAddress, formatHostPort } from "../core/host-port.ts";
import { defineCommand, flagOf, type OptionValues, type Setting, UsageError } from "./command.ts";
import { ADMIN, BASE_PATH, HOST, integerBetween, PORT, TLS_CERT } from "./options.ts";
import { printLines } from "./output.ts";

/** Beyond any answer of ours; another service may send whatever it likes. */
const ANSWER_BYTES_MAX = 4096;
const MISSING_TOKEN = 40101;

const SERVICE = {
  url: {
    placeholder: "URL",
    help: "the server's base URL; without, the four options below make it",
    parse: parseUrl,
  },
  host: { ...HOST, help: "the address the server listens on" },
  port: { ...PORT, help: "the port the server listens on" },
  basePath: BASE_PATH,
  tlsCert: { ...TLS_CERT, help: "the server has a certificate: ask by https" },
};
const OPTIONS = {
  ...SERVICE,
  admin: { ...ADMIN, help: "ask the admin listener there whether the server is ready, instead" },
  timeoutMs: {
    placeholder: "MS",
    help: "how long an answer may take",
    defaultText: "2000",
    parse: integerBetween(1, 600_000),
  },
};

export const health = defineCommand({
  name: "health",
  summary: "ask a running server whether it answers; exit status 1 if not",
  options: OPTIONS,
  details: "Needs no token. Over https the certificate is not judged: nothing secret is sent.",
  async run(_, options, settings) {
    if (options.admin !== undefined && !isServiceMeant(settings)) {
      await printLines([await askAdmin(options.admin, options.timeoutMs)]);
      return 0;
    }
    const url = options.url ?? baseUrl(options);
    const { status, document } = await ask(url, `${url}/plants`, options.timeoutMs);
    if (status !== 401 || document.error !== MISSING_TOKEN) {
      throw new Error(`${url} answers, but not as a plant store does`);
    }
    await printLines([`${url} answers`]);
    return 0;
  },
});

/** Whether flags name the service, and the admin listener is named by a variable, if at all. */
function isServiceMeant(settings: readonly Setting[]): boolean {
  const isFlag = (name: string) => settings.some(({ source }) => source === flagOf(name));
  if (!isFlag("admin")) return Object.keys(SERVICE).some(isFlag);
  if (!isFlag("url")) return false;
  throw new UsageError("health: expected --url or --admin, got both");
}

/** @throws Error saying what the server is at, if it is not ready. */
async function askAdmin(address: AdminAddress, timeoutMs: number): Promise<string> {
  const url = formatAdminAddress(address);
  const target = "socketPath" in address ? { ...address, path: "/readyz" } : `${url}/readyz`;
  const { status, document } = await ask(url, target, timeoutMs);
  const { state, message } = document;
  if (state === undefined) throw new Error(`${url} answers, but not as a plant store does`);
  if (status !== 200) throw new Error(`${url} is not ready, it is ${state}: ${message}`);
  return `${url} is ready`;
}

interface Answer {
  readonly status: number | undefined;
  /** The members of the JSON object that it is; none if it is something else. */
  readonly document: Readonly<Record<string, unknown>>;
}

/** @throws Error naming the server, if there is no answer. */
async function ask(url: string, target: string | object, timeoutMs: number): Promise<Answer> {
  try {
    return await request(
      typeof target === "string" ? urlToHttpOptions(new URL(target)) : target,
      timeoutMs,
    );
  } catch (error) {
    throw new Error(`${url} does not answer: ${describe(error as Error)}`);
  }
}

function request(target: https.RequestOptions, timeoutMs: number): Promise<Answer> {
  const client = target.protocol === "https:" ? https : http;
  const options = {
    ...target,
    rejectUnauthorized: false,
    signal: AbortSignal.timeout(timeoutMs),
    // The global agent asks the proxy of HTTP_PROXY if NODE_USE_ENV_PROXY is set.
    agent: new client.Agent(),
  };
  return new Promise((resolve, reject) => {
    const req = client.get(options, (res) => {
      let text = "";
      res.setEncoding("utf8").on("data", (part: string) => {
        text += part;
        if (text.length > ANSWER_BYTES_MAX) req.destroy(new Error("its answer has no end"));
      });
      res.on("end", () => resolve({ status: res.statusCode, document: parseObject(text) }));
      res.on("error", reject);
    });
    req.on("error", reject);
  });
}

function parseObject(text: string): Answer["document"] {
  try {
    return { ...JSON.parse(text) };
  } catch {
    return {};
  }
}

function describe(error: NodeJS.ErrnoException): string {
  if (error.name === "AbortError" || error.name === "TimeoutError") return "it takes too long";
  return error.code === "ECONNREFUSED" ? "nobody listens there" : error.message;
}

/** Where a server with the same options is reached from this machine. */
function baseUrl(options: OptionValues<typeof OPTIONS>): string {
  const { host, port, basePath = "", tlsCert } = options;
  const reached = { "0.0.0.0": "127.0.0.1", "::": "::1" }[host] ?? host;
  const scheme = tlsCert === undefined ? "http" : "https";
  return `${scheme}://${formatHostPort(reached, port)}${basePath}`;
}

function parseUrl(text: string): string {
  // No user, no query, no fragment: none of them would be sent.
  if (!/^https?:\/\/[^/@?#]+(\/[^?#]*)?$/.test(text) || !URL.canParse(text)) {
    throw new UsageError(
      "expected a URL such as http://127.0.0.1:8080, without user, query or fragment",
    );
  }
  return text.replace(/\/+$/, "");
}
