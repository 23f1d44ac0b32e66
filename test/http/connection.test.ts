/** How long a connection may make no progress: the timeout of a real socket after each step. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { IncomingMessage, ServerResponse } from "node:http";
import { connect, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { Budget, Lease } from "../../src/http/body.ts";
import { Connection } from "../../src/http/connections.ts";

const IDLE_MS = 600_000;
/** A client that sends within the advertised time never finds its connection closed. */
const IDLE = IDLE_MS + 1000;
const STALL = 700_000;
const NONE = 0;
const LIMITS = { idleMs: IDLE_MS, stallMs: STALL, unansweredMax: 2 };
const WAITING = new Budget(1024);
const lend = () => new Lease(WAITING, "a");

/** Both ends of a connection. */
async function accept(t: TestContext): Promise<{ socket: Socket; client: Socket }> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  const client = connect(port, "127.0.0.1");
  const [socket] = (await once(server, "connection")) as [Socket];
  t.after(() => {
    client.destroy();
    socket.destroy();
    server.close();
  });
  return { socket, client };
}

/** A request begins with the arrival of its bytes. */
type Step = "look" | "begin" | "end";
const LIVES: readonly [says: string, steps: readonly [Step, timeout: number][]][] = [
  [
    "before the first request, as one on which an answer is due",
    [
      ["look", NONE],
      ["look", STALL],
      ["look", STALL],
    ],
  ],
  [
    "with each look between which a request begins, without a timer",
    [
      ["begin", NONE],
      ["look", NONE],
      ["end", NONE],
      ["begin", NONE],
      ["look", NONE],
      ["end", NONE],
      ["begin", NONE],
      ["look", NONE],
    ],
  ],
  [
    "while an answer is due, then between two requests",
    [
      ["begin", NONE],
      ["look", NONE],
      ["look", STALL],
      ["end", STALL],
      ["look", IDLE],
      ["look", IDLE],
      ["begin", NONE],
      ["look", NONE],
      ["look", STALL],
    ],
  ],
  [
    "with one of two answers sent, as one on which an answer is due",
    [
      ["begin", NONE],
      ["begin", NONE],
      ["end", NONE],
      ["look", NONE],
      ["look", STALL],
    ],
  ],
];

for (const [says, steps] of LIVES) {
  test(`a connection is timed ${says}`, async (t) => {
    const { socket, client } = await accept(t);
    socket.on("data", () => {});
    const connection = new Connection(socket, LIMITS, lend);
    const answers: ServerResponse[] = [];
    const take: Record<Step, () => unknown> = {
      look: () => connection.look(),
      begin: async () => {
        client.write("x");
        await once(socket, "data");
        const res = new ServerResponse(new IncomingMessage(socket));
        answers.push(res);
        connection.begin(res, 100);
      },
      end: () => answers.shift()?.emit("close"),
    };
    const seen: [Step, number][] = [];
    for (const [step] of steps) {
      await take[step]();
      seen.push([step, socket.timeout ?? NONE]);
    }
    assert.deepEqual(seen, steps);
  });
}
