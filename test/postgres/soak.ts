/**
 * `node --import tsx test/postgres/soak.ts [--minutes 30]`: one server over a database under load for minutes: creates,
 * repeats, reads and streams, while sessions are terminated, tokens change, and the standby goes and returns.
 * Its memory, its descriptors and its sessions must stay level, and every plant must be stored.
 */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { createToken, PostgresPlants, revokeToken } from "../../src/postgres/index.ts";
import { withCleanup } from "./cleanup.ts";
import { startServer } from "./servers.ts";
import { buildProgram, loadDriver, NEEDS_POSTGRES, SESSIONS_MAX, startPair } from "./stores.ts";

const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "30" },
    clients: { type: "string", default: "64" },
  },
});
if (NEEDS_POSTGRES.skip !== undefined) throw new Error(NEEDS_POSTGRES.skip);
const SECONDS = Number(values.minutes) * 60;
const DISTURB_EVERY_SECONDS = 10;
/** Descriptors come and go with streams. */
const SLACK_DESCRIPTORS = 8;
/** Garbage that may not be collected yet. */
const SLACK_MIB = 32;

interface Sample {
  readonly residentMib: number;
  readonly descriptors: number;
  readonly sessions: number;
}

const isLevel = await withCleanup(async (cleanup) => {
  const { primary, standby, url } = await startPair(cleanup);
  const owner = primary.url("garden");
  const operator = await PostgresPlants.open({ pg: await loadDriver(), url: owner });
  cleanup.after(() => operator.close());
  const token = await createToken(operator, { name: "app", scopes: ["write", "read"] });
  const words = [process.execPath, buildProgram(), "serve", "--port", "0", "--database", url];
  const server = await startServer(cleanup, [...words, "--log", "off"]);
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  let ids = 0;
  let unanswered = 0;
  let isOver = false;

  /** Creates a plant until that is answered 200, repeats it, and reads it. */
  const work = async () => {
    while (!isOver) {
      const id = ++ids;
      const body = JSON.stringify({ id, name: `plant ${id}` });
      for (let times = 1; times <= 2; times++) {
        for (;;) {
          const answer = await fetch(`${server.url}/plants`, { method: "POST", headers, body });
          await answer.text();
          if (answer.status === 200) break;
          if (answer.status !== 503)
            throw new Error(`${times}: ${body} was answered ${answer.status}`);
          unanswered++;
        }
      }
      const read = await fetch(`${server.url}/plants/${id}`, { headers });
      const text = await read.text();
      if (read.status === 200 && text !== body) throw new Error(`expected ${body}, got ${text}`);
    }
  };
  const stream = async () => {
    while (!isOver) {
      const accept = { ...headers, accept: "application/x-ndjson" };
      const plants = await fetch(`${server.url}/plants`, { headers: accept });
      await plants.text().catch(() => {}); // a stream may be cut
      await sleep(5000);
    }
  };
  const disturbances = [
    () => primary.endSessions(),
    async () => {
      await createToken(operator, { name: "guest" });
      await revokeToken(operator, "guest");
    },
    async () => {
      await standby.stop("kill");
      await sleep(3000);
      await standby.start();
    },
  ];

  const samples: Sample[] = [];
  const clients = [...Array.from({ length: Number(values.clients) }, work), stream()];
  const failed = Promise.all(clients);
  failed.catch(() => {}); // awaited at the end
  const begun = performance.now();
  for (let second = 1; performance.now() - begun < SECONDS * 1000; second++) {
    await Promise.race([sleep(1000), failed]);
    if (second % DISTURB_EVERY_SECONDS === 0) {
      await disturbances[(second / DISTURB_EVERY_SECONDS) % disturbances.length]?.();
      continue; // sessions that end are still counted
    }
    samples.push({
      residentMib: residentMib(server.pid),
      descriptors: readdirSync(`/proc/${server.pid}/fd`).length,
      sessions: await primary.countSessions(),
    });
    if (second % 60 === 1) console.log(JSON.stringify({ ...samples.at(-1), ids, unanswered }));
  }
  isOver = true;
  await failed;

  const kept = "SELECT count(*) FROM plants WHERE name = 'plant ' || id";
  const stored = Number((await primary.sql(kept, "garden"))[0]);
  const half = samples.length >> 1;
  const most = (part: readonly Sample[], name: "descriptors" | "sessions") =>
    Math.max(...part.map((sample) => sample[name]));
  const quarter = Math.floor(samples.length / 4);
  const mean = (quarters: number) =>
    samples
      .slice(quarters * quarter, (quarters + 1) * quarter)
      .reduce((sum, sample) => sum + sample.residentMib / quarter, 0);
  const growthMib = mean(3) - mean(2); // the program warms up before
  const descriptors = [samples.slice(0, half), samples.slice(half)].map((part) =>
    most(part, "descriptors"),
  ) as [number, number];
  const verdicts = {
    [`all ${ids} plants are stored`]: stored === ids,
    [`memory grew by ${growthMib.toFixed(1)} MiB in the last quarter`]: growthMib <= SLACK_MIB,
    [`descriptors: at most ${descriptors.join(", then ")}`]:
      descriptors[1] <= descriptors[0] + SLACK_DESCRIPTORS,
    [`sessions: at most ${most(samples, "sessions")}`]: most(samples, "sessions") <= SESSIONS_MAX,
  };
  for (const [what, isKept] of Object.entries(verdicts)) {
    console.log(`${what}: ${isKept ? "kept" : "MISSED"}`);
  }
  return Object.values(verdicts).every((isKept) => isKept);
});
process.exit(isLevel ? 0 : 1);

function residentMib(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+([0-9]+) kB$/m.exec(status)?.[1]) / 1024;
}
