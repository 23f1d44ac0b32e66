/**
 * Outages that last about as long as the deadline of a request, or longer. Nothing is lost in them either,
 * and every request ends within its deadline. They take up to a minute, so `test/postgres/failover.ts` alone has them.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { createToken, PostgresTokens, revokeToken } from "../../src/postgres/index.ts";
import { SmallDisk } from "../crash/small-disk.ts";
import { until } from "../support/watch.ts";
import { ANSWERED_MS, DEADLINE_MS, type Fault, type Trial } from "./faults.ts";
import { startFirewall } from "./firewall.ts";
import { SESSIONS_MAX } from "./stores.ts";

const PAST_DEADLINE_MS = DEADLINE_MS + 2000;
const HELD = { opened: [-1n, -10n], prepared: [-11n, -20n] } as const;

async function openTokens({ cleanup, stores }: Trial): Promise<readonly PostgresTokens[]> {
  const opened = await Promise.all(stores.map((store) => PostgresTokens.open(store)));
  cleanup.after(() => {
    for (const tokens of opened) tokens.close();
  });
  return opened;
}

function insertHeld([first, last]: readonly [bigint, bigint]): string {
  const ids = `generate_series(${last}, ${first}) i`;
  return `BEGIN; INSERT INTO plants SELECT i, 'held', NULL, NULL, 0 FROM ${ids}`;
}

export const OUTAGES: Readonly<Record<string, Fault>> = {
  "the standby is gone for a minute": {
    happens: async (trial) => {
      const { primary, standby, stores, load } = trial;
      await openTokens(trial);
      for (const store of stores) await store.get(1n);
      await load.more(300);
      await standby.stop("kill");
      let sessions = 0;
      for (let second = 0; second < 60; second++) {
        await sleep(1000);
        sessions = Math.max(sessions, await primary.countSessions());
      }
      await standby.start();
      await load.more(300);
      return { sessions };
    },
    limits: { sessions: 2 * SESSIONS_MAX },
  },
  "the primary stops for 5 s": {
    isUnnoticed: true,
    happens: async ({ primary, load }) => {
      await load.more(300);
      await primary.freeze();
      await sleep(5000);
      await primary.thaw();
      await load.more(300);
    },
  },
  "the database has no room for connections": {
    happens: async ({ primary, load }) => {
      await load.more(300);
      await primary.sql("ALTER ROLE plant_store CONNECTION LIMIT 0");
      await primary.endSessions();
      await sleep(PAST_DEADLINE_MS);
      await primary.sql("ALTER ROLE plant_store CONNECTION LIMIT -1");
      await load.more(300);
    },
  },
  "the disk is full for 5 s": {
    happens: async ({ primary, cleanup, load }) => {
      const disk = new SmallDisk();
      cleanup.after(disk.remove);
      if (!disk.canFill) return console.log("  not run: needs the right to mount a tmpfs");
      await primary.moveTables(disk.folder);
      await load.more(300);
      disk.fill();
      await until("creates are refused", () => load.failed > 0);
      await sleep(5000);
      disk.giveRoom();
      await load.more(300);
    },
  },
  "rows are held by an open transaction, and by a prepared one": {
    happens: async ({ primary, load }) => {
      await load.more(300);
      const seconds = PAST_DEADLINE_MS / 1000;
      const hold = `${insertHeld(HELD.opened)}; SELECT pg_sleep(${seconds}); ROLLBACK`;
      const holding = primary.sql(hold, "garden");
      await primary.sql(`${insertHeld(HELD.prepared)}; PREPARE TRANSACTION 'held'`, "garden");
      const ids = Array.from({ length: 20 }, (_, at) => BigInt(-1 - at));
      const held = load.createToo(ids);
      await holding;
      await primary.sql("ROLLBACK PREPARED 'held'", "garden");
      return { heldMs: await held };
    },
    limits: { longestMs: 3000, heldMs: ANSWERED_MS },
  },
  "packets are dropped without a reset": {
    happens: async ({ primary, cleanup, load, open }) => {
      const url = primary.url("garden", { user: "plant_store" });
      const firewalls = [await startFirewall(cleanup, url), await startFirewall(cleanup, url)];
      load.use(await Promise.all(firewalls.map((firewall) => open(firewall.url))));
      await load.more(300);
      for (const firewall of firewalls) firewall.forget();
      await load.more(300);
    },
  },
  "a token is revoked, 20 times": {
    happens: async (trial) => {
      const { primary, open } = trial;
      const checks = await openTokens(trial);
      const operator = await open(primary.url("garden"));
      let revokedMs = 0;
      for (let round = 0; round < 20; round++) {
        const name = `app-${round}`;
        const token = await createToken(operator, { name });
        await until("every server accepts it", () =>
          checks.every((check) => check.isReadable && check.verify(token) !== undefined),
        );
        await sleep(Math.random() * 500);
        await revokeToken(operator, name);
        const revoked = performance.now();
        await until("every server refuses it", () =>
          checks.every((check) => check.isReadable && check.verify(token) === undefined),
        );
        revokedMs = Math.max(revokedMs, performance.now() - revoked);
      }
      return { revokedMs };
    },
    limits: { revokedMs: 1000 },
  },
};
