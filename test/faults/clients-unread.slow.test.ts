/** Floods of clients that never stop sending, and never read an answer. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { type TestContext, test } from "node:test";
import { encodeRequest } from "../support/contract.ts";
import { makeFolder } from "../support/folders.ts";
import { TIMEOUT, until } from "../support/watch.ts";
import { canTrace, faulty, openSockets } from "./machine.ts";
import { assertKept, plant, Trial } from "./trial.ts";

/** The most that each flooding client sends, far more than the buffers of the sockets hold. */
const BYTES = 64 * 1024 * 1024;
const PIECE_BYTES = 256 * 1024;
/** Has a connection on which nothing moves cut after 4 s instead of 120. */
const FASTER = `
  import { Socket } from "node:net";
  const { setTimeout } = Socket.prototype;
  Socket.prototype.setTimeout = function (ms, then) {
    setTimeout.call(this, ms / 30, then);
    this.timeout = ms; // the server sets another one if this differs
    return this;
  };`;

/** The server's heap, a quarter of which is in use: without a limit on memory the server would end. */
const SMALL_HEAP = {
  NODE_OPTIONS: `--max-old-space-size=112 --import=data:text/javascript,${encodeURIComponent(FASTER)}`,
};

const SMALL = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/** A request that is refused before its end, with an answer that closes the connection. */
const REFUSED = "POST /plants HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";

interface Flood {
  readonly first?: string;
  /** The requests that follow it, repeated. */
  readonly request: string | Buffer;
}

/** Sends until it is cut or everything is sent, and never reads; resolves once it is connected. */
async function flood(t: TestContext, port: number, { first = "", request }: Flood): Promise<void> {
  const piece = Buffer.concat(
    Array.from({ length: Math.ceil(PIECE_BYTES / request.length) }, () => Buffer.from(request)),
  );
  const socket = net.connect(port, "127.0.0.1");
  socket.pause();
  t.after(() => socket.destroy());
  await once(socket, "connect");
  socket.on("error", () => {}); // it is cut while it sends
  socket.write(first);
  let sent = 0;
  const send = () => {
    while (sent < BYTES && !socket.destroyed) {
      sent += piece.length;
      if (!socket.write(piece)) {
        socket.once("drain", send);
        return;
      }
    }
  };
  send();
}

test(
  "clients that pipeline requests and never read are cut, and memory stays bounded",
  TIMEOUT,
  async (t) => {
    const trial = await Trial.start(t, { env: SMALL_HEAP });
    const before = openSockets(trial.pid);
    const name = "n".repeat(50_000);
    assert.equal(await trial.create(1, name), 200);
    const floods: readonly Flood[] = [
      // Requests with an answer ten times as long.
      { request: SMALL },
      // Replays, whose answers are as long as the requests.
      { request: encodeRequest(trial, { body: plant(1, name) }) },
      // Requests that the server does not answer.
      ...Array.from({ length: 30 }, () => ({ first: REFUSED, request: SMALL })),
    ];
    await Promise.all(floods.map((each) => flood(t, trial.server.port, each)));
    // The two that get answers last for seconds, the others for one second.
    await until("the server has those", () => openSockets(trial.pid) >= before + 2);
    // Counted in the server, because a client that does not read may not notice that it was cut.
    for (let id = 2; openSockets(trial.pid) > before; id++) {
      assert.equal(await trial.create(id), 200, "an ordinary client is answered meanwhile");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.equal(await trial.create(1, name), 200);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertKept(trial.folder, trial.acknowledged);
  },
);

test(
  "clients that pipeline creates while the disk hangs are cut, and memory stays bounded",
  TIMEOUT,
  async (t) => {
    if (!canTrace(t)) return;
    const folder = makeFolder(t);
    const { read, wrapper, env } = faulty(t, folder, "write:delay_enter=5000000:when=1");
    const trial = await Trial.start(t, {
      folder,
      wrapper,
      env: { ...env, ...SMALL_HEAP },
    });
    const before = openSockets(trial.pid);
    const request = encodeRequest(trial, { body: plant(1) });
    const floods = Array.from({ length: 4 }, () => flood(t, trial.server.port, { request }));
    await Promise.all(floods);
    await until("the server has them", () => openSockets(trial.pid) >= before + floods.length);
    await until("all of them are cut", () => openSockets(trial.pid) <= before);
    assert.equal(await trial.create(2), 200);
    assert.match(read(), /DELAYED/);
    assert.deepEqual(await trial.stop(), { status: 0, signal: null, messages: [] });
    assertKept(folder, trial.acknowledged);
  },
);
