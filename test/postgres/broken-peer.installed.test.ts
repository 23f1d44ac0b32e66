/** A server that does not speak PostgreSQL's protocol as it should: its connection breaks, and nothing else. */
import assert from "node:assert/strict";
import { once } from "node:events";
import net from "node:net";
import { type TestContext, test } from "node:test";
import tls from "node:tls";
import { Connection, DatabaseFault } from "../../src/postgres/connection.ts";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { CHECKS, judgeInspection } from "../../src/postgres/inspection.ts";
import { makeCertificate, NEEDS_OPENSSL } from "../support/certificates.ts";
import { HANG_MS, TIMEOUT, until } from "../support/watch.ts";
import { loadDriver, NEEDS_POSTGRES, openPlants, SharedCluster } from "./stores.ts";

const OPTIONS = { ...NEEDS_POSTGRES, ...TIMEOUT };
const cluster = new SharedCluster();

function int16(value: number): Buffer {
  return Buffer.from([(value >> 8) & 0xff, value & 0xff]);
}

function int32(value: number): Buffer {
  return Buffer.from([value >> 24, value >> 16, value >> 8, value]);
}

function message(type: string, ...parts: readonly (string | Buffer)[]): Buffer {
  const body = Buffer.concat(parts.map((part) => Buffer.from(part as string, "latin1")));
  return Buffer.concat([Buffer.from(type), int32(body.length + 4), body]);
}

const LOGIN = Buffer.concat([
  message("R", int32(0)),
  message("S", "server_version\0", "15\0"),
  message("Z", "I"),
]);
const COLUMN = `a\0${"\0".repeat(18)}`;
const ONE_COLUMN = message("T", int16(1), COLUMN);
const BEGIN = Buffer.concat([message("1"), message("2")]);
const END = Buffer.concat([message("C", "SELECT 1\0"), message("Z", "I")]);
/** A long value, so that the length of the one after it leads back. */
const BACKWARDS = [int32(60_000), "x".repeat(60_000), int32(-60_008)];

/** What a broken server sends in place of an answer. */
const BROKEN: Readonly<Record<string, readonly Buffer[]>> = {
  "a row that ends too soon": [BEGIN, ONE_COLUMN, message("D", int16(500), int32(1e6))],
  "a row with fewer columns than announced": [
    BEGIN,
    message("T", int16(2), COLUMN, COLUMN),
    message("D", int16(1), int32(1), "x"),
    END,
  ],
  "a row that was not announced": [BEGIN, message("D", int16(1), int32(1), "x"), END],
  "a negative number of columns": [BEGIN, ONE_COLUMN, message("D", int16(-5))],
  "a value of negative length": [BEGIN, ONE_COLUMN, message("D", int16(1), int32(-5), "x"), END],
  "lengths that lead back": [BEGIN, message("D", int16(32_767), ...BACKWARDS), END],
  "messages of length 0": [Buffer.from("D\0\0\0\0".repeat(50), "latin1")],
  "a message of length -1": [Buffer.from("D\xff\xff\xff\xff junk", "latin1")],
  "a message of 2 GiB": [Buffer.from("D\x7f\xff\xff\xff", "latin1"), Buffer.alloc(1e6)],
  "a description of columns that is empty": [message("Z", "I"), message("t"), message("T")],
  "rows after the end": [BEGIN, ONE_COLUMN, END, message("D", int16(1), int32(1), "x"), END],
  "an end without a result": [message("Z", "I"), message("Z", "I")],
  "an error without an end": [message("E", "SERROR\0C\0M\0")],
  "an empty error": [message("E")],
  "a notice without an end": [message("N", "SWARNING\0"), END],
  "an unknown way to log in": [message("R", int32(99))],
  "a challenge for no login": [message("R", int32(11), "r=x"), message("R", int32(12), "v=x")],
  "an unknown message": [message("!", "what?")],
  "another protocol": [Buffer.from("HTTP/1.1 400 Bad Request\r\n\r\n")],
};

/** Parts of the statements during which a server breaks. */
const STAGES = {
  "a login": "user\0plant_store\0",
  "a look": "pg_is_in_recovery()",
  "a create": "INSERT INTO plant_store.plants ",
};

/** A server before a real one: passes on what both send, or breaks. */
async function startPeer(t: TestContext, port: number) {
  const sockets = new Set<net.Socket>();
  const state: { at: string; sends: readonly Buffer[]; breaks: number } = {
    at: "",
    sends: [],
    breaks: 0,
  };
  const peer = net.createServer((client) => {
    const server = net.connect(port, "127.0.0.1");
    for (const socket of [client, server]) {
      sockets.add(socket.on("error", () => {}));
      socket.on("close", () => [client, server].map((each) => each.destroy()));
    }
    server.pipe(client);
    client.on("data", (sent) => {
      if (state.at === "" || !sent.includes(state.at)) return server.write(sent);
      state.breaks++;
      server.unpipe(client);
      for (const each of state.sends) client.write(each);
      return false;
    });
  });
  peer.listen(0, "127.0.0.1");
  await once(peer, "listening");
  t.after(() => {
    peer.close();
    for (const socket of sockets) socket.destroy();
  });
  return { state, port: (peer.address() as net.AddressInfo).port };
}

const isDone = () => true;

/** Of a call that ends at its deadline; an inspection of another form is a refusal. */
function isRefused({
  code,
  message,
}: {
  readonly code?: string;
  readonly message: string;
}): boolean {
  assert.ok(code === "write_failed" || code === "store_failed", message);
  return false;
}

for (const [stage, at] of Object.entries(STAGES)) {
  test(
    `a server that breaks the protocol during ${stage} costs the connection`,
    OPTIONS,
    async (t) => {
      const { cluster: server, url } = await cluster.createStore();
      const { state, port } = await startPeer(t, server.port);
      const plants = await openPlants(t, {
        url: url.replace(`:${server.port}/`, `:${port}/`),
        databaseDeadlineMs: 300,
      });
      let id = 0n;
      const create = () => plants.create({ id: ++id, name: "Fern" });
      const works = async () => {
        const isStored = await create().then(isDone, isRefused);
        return (
          isStored && (await plants.get(id).then((plant) => plant?.name === "Fern", isRefused))
        );
      };
      for (const [what, sends] of Object.entries(BROKEN)) {
        await until(`the store works before ${what}`, works);
        Object.assign(state, { at, sends, breaks: 0 });
        if (stage === "a login") await server.endSessions();
        await until(`the server sends ${what}`, async () => {
          await create().catch(isRefused);
          return state.breaks > 0;
        });
        state.at = "";
      }
      await until("the store works at the end", works);
    },
  );
}

/** Numbers below a limit, the same for the same seed. */
function randomBelow(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

const TYPES = "123ACDEGHIKNRSTVWZcdnst!";

/** Bytes at random, messages with bodies at random, or an answer with a few bytes changed. */
function damage(below: (limit: number) => number): Buffer {
  const junk = (most: number) => Buffer.from(Array.from({ length: below(most) }, () => below(256)));
  const kind = below(3);
  if (kind === 0) return junk(2000);
  if (kind === 1) {
    const messages = Array.from({ length: below(20) }, () =>
      message(TYPES[below(TYPES.length)] ?? "", junk(below(2) ? 60 : 6)),
    );
    return Buffer.concat([BEGIN, ONE_COLUMN, ...messages, END]);
  }
  const row = message("D", int16(1), int32(4), "Fern");
  const error = message("E", "SERROR\0", "C42000\0", "Mno\0", "\0");
  const answer = Buffer.concat([LOGIN, BEGIN, ONE_COLUMN, row, row, error, END]);
  for (let times = below(8); times > 0; times--) answer[below(answer.length)] = below(256);
  return answer;
}

/** A server that logs in, if not asked for less, then sends bytes and ends; and a query to it. */
async function startSender(t: TestContext, secure?: tls.TLSSocketOptions) {
  const state: { sends: Buffer; isLogin: boolean } = { sends: LOGIN, isLogin: false };
  const serve = (client: net.Socket) => {
    client.on("error", () => {});
    client.once("data", () => {
      if (state.isLogin) client.end(state.sends);
      else client.write(LOGIN);
      client.on("data", () => client.end(state.sends));
    });
  };
  const peer = net.createServer((client) => {
    if (secure === undefined) serve(client);
    else {
      client.once("data", () => {
        client.write("S");
        serve(new tls.TLSSocket(client, { ...secure, isServer: true }));
      });
    }
  });
  peer.listen(0, "127.0.0.1");
  await once(peer, "listening");
  t.after(() => peer.close());
  const { port } = peer.address() as net.AddressInfo;
  const pg = await loadDriver();
  const parameters = secure === undefined ? "" : "?sslmode=require";
  const target = parseDatabaseUrl(`postgresql://a@127.0.0.1:${port}/garden${parameters}`);
  const candidate = { host: "127.0.0.1", address: "127.0.0.1", port };
  const query = async () => {
    const options = { password: "secret", limitMs: HANG_MS };
    const connection = await Connection.open(pg, target, candidate, options);
    const rows = await connection.query("SELECT $1", ["x"]);
    await connection.close();
    return rows;
  };
  return { state, query };
}

async function assertBroken(t: TestContext, secure?: tls.TLSSocketOptions): Promise<void> {
  const { state, query } = await startSender(t, secure);
  state.sends = Buffer.concat([BEGIN, ONE_COLUMN, message("D", int16(1), int32(1), "x"), END]);
  assert.deepEqual(await query(), [["x"]]);
  for (const [what, sends] of Object.entries(BROKEN)) {
    if (what === "rows after the end") continue; // of a statement that has ended
    state.sends = Buffer.concat(sends);
    await assert.rejects(query(), DatabaseFault, what);
  }
}

test("an answer that breaks the protocol is none", OPTIONS, (t) => assertBroken(t));

test("an answer that breaks the protocol is none over TLS", {
  ...OPTIONS,
  ...NEEDS_OPENSSL,
}, async (t) => {
  const { cert, key } = makeCertificate(t, "db.example");
  await assertBroken(t, { cert, key });
});

test("the message of a server is cut, and controls no terminal", OPTIONS, async (t) => {
  const { state, query } = await startSender(t);
  const text = `\x1b[31mred\nnext line${"!".repeat(1e6)}\0`;
  const fields = ["SERROR\0", "C42000\0", `M${text}`, "\0"];
  state.sends = Buffer.concat([message("E", ...fields), message("Z", "I")]);
  const fault = await query().catch((cause: DatabaseFault) => cause);
  assert.ok(fault instanceof DatabaseFault);
  assert.equal(fault.sqlstate, "42000");
  assert.match(fault.message, /^[ -~]{100,3000}$/);
});

test("no bytes of a server end the process, or keep a statement", OPTIONS, async (t) => {
  const { state, query } = await startSender(t);
  for (let seed = 1; seed <= 1000; seed++) {
    state.sends = damage(randomBelow(seed));
    state.isLogin = seed % 2 === 0;
    await query().catch((fault) => {
      assert.ok(fault instanceof DatabaseFault, `seed ${seed}: ${fault}`);
    });
  }
});

test("an inspection of another form is a refusal", () => {
  const whole = ["the store", "0", "f", "t", "f", ...CHECKS.map(() => null)];
  assert.equal(judgeInspection(whole).refusal, undefined);
  for (const row of [
    [],
    whole.slice(0, 4),
    whole.slice(0, -1),
    [...whole, "f"],
    whole.with(0, ""),
    whole.with(1, "many"),
    whole.with(2, null),
    whole.with(4, "x"),
  ]) {
    assert.match(judgeInspection(row).refusal ?? "", /does not answer as PostgreSQL does/);
  }
});
