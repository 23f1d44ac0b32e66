/** A proxy in front of a store that fails in the ways of proxies, in turn: it answers HTML, and breaks connections. */
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import type { TestContext } from "node:test";
import { type Served, serve } from "../support/serve.ts";

const HTML = "<html><h1>Bad gateway</h1></html>";

/** What the proxy does with a request; `pass` sends it on and resolves with the answer. */
type Manner = (
  req: IncomingMessage,
  res: ServerResponse,
  pass: () => Promise<IncomingMessage>,
) => Promise<void> | void;

const html = (status: number): Manner => {
  return (_, res) => void res.writeHead(status, { "Content-Type": "text/html" }).end(HTML);
};

/** The answer is lost, although the store has carried out the request. */
const lose =
  (manner: Manner): Manner =>
  async (req, res, pass) => {
    (await pass()).resume();
    return manner(req, res, pass);
  };

const answer: Manner = async (_, res, pass) => {
  const answered = await pass();
  res.writeHead(answered.statusCode ?? 0, answered.headers);
  answered.pipe(res);
};

/** The answer breaks off before its end. */
const cut: Manner = async (_, res, pass) => {
  const answered = await pass();
  res.writeHead(answered.statusCode ?? 0, answered.headers);
  answered.once("data", (chunk: Buffer) => {
    res.write(chunk.subarray(0, chunk.length / 2), () => res.destroy());
  });
};

const FAILURES: readonly Manner[] = [
  html(502),
  lose(html(504)),
  (req) => void req.socket.destroy(),
  lose((req) => void req.socket.destroy()),
  cut,
  html(503),
  lose(html(502)),
];

/** Starts a proxy that fails every other request to this port, except preflights of browsers. */
export function serveFailing(t: TestContext, port: number): Promise<Served> {
  let turn = 0;
  return serve(t, (req, res) => {
    const { method, url: path, headers } = req;
    const pass = () => {
      return new Promise<IncomingMessage>((resolve, reject) => {
        const passed = http.request({ port, method, path, headers }, resolve);
        passed.once("error", reject);
        req.pipe(passed);
      });
    };
    const isPassed = method === "OPTIONS" || ++turn % 2 === 0;
    const failure = FAILURES[Math.floor(turn / 2) % FAILURES.length];
    const manner = (isPassed ? undefined : failure) ?? answer;
    Promise.resolve(manner(req, res, pass)).catch(() => res.destroy());
  });
}
