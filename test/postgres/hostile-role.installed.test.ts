/**
 * A role that may create objects in the schema `public`, as every role may before PostgreSQL 15, shadows there all
 * of `pg_catalog` that it can: whatever runs one of its functions leaves its name in `public.loot`.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { printSchema } from "../../src/postgres/index.ts";
import { runSql } from "./cluster.ts";
import { listPlants, OPTIONS, openStore, SharedCluster } from "./stores.ts";

const shared = new SharedCluster();

/** Functions, operators, types. Types come last, because functions would have arguments of them. */
const SHADOW_ALL = `
SET search_path = pg_catalog;
SET check_function_bodies = off;
CREATE TABLE public.loot (who text, what text);
GRANT INSERT, SELECT ON public.loot TO PUBLIC;
DO $do$
DECLARE
  body text := $body$ LANGUAGE plpgsql SET search_path = pg_catalog AS $f$BEGIN
    INSERT INTO public.loot VALUES (current_user, %L); RETURN%s; END$f$$body$;
  types text[] := '{oid,regclass,regrole,name,text,bigint,integer,smallint,boolean,interval,anyelement,bigint[],text[]}';
  each record;
BEGIN
  FOR each IN
    SELECT proname AS name, prorettype::regtype::text AS result, proretset AS is_set, (SELECT
      coalesce(string_agg(CASE WHEN provariadic <> 0 AND n = pronargs THEN 'VARIADIC ' ELSE '' END
        || format_type(t, NULL), ', ' ORDER BY n), '') FROM unnest(proargtypes) WITH ORDINALITY u (t, n)) AS arguments
    FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
    -- Those of "any", and better matches for arguments that the system has to cast.
    UNION ALL SELECT name, 'text', false, arguments FROM unnest('{concat,concat_ws,format,count,greatest,set_config}'::text[]) name,
      unnest(ARRAY['text', 'bigint', 'text, name', 'text, text', 'text, bigint, bigint, bigint']) arguments
    UNION ALL SELECT 'unnest', 'text', false, 'bigint[], text[], text[], text[]'
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s %s', each.name, each.arguments,
        CASE WHEN each.is_set THEN 'SETOF ' ELSE '' END || each.result,
        format(body, each.name, CASE WHEN each.is_set OR each.result = 'void' THEN '' ELSE ' NULL' END));
    EXCEPTION WHEN OTHERS THEN -- PL/pgSQL has no arguments of type internal, cstring and "any"
    END;
  END LOOP;
  FOR each IN
    SELECT oprname AS name, format_type(nullif(oprleft, 0), NULL) AS l, format_type(oprright, NULL) AS r,
      oprresult::regtype AS result FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace
    UNION SELECT o, l, r, CASE WHEN o IN ('+', '-', '||') THEN r ELSE 'boolean' END::regtype
    FROM unnest('{=,<>,<,>,<=,>=,+,-,||,~}'::text[]) o, unnest(types) l, unnest(types) r
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION public.operator_of(%s) RETURNS %s %s', concat_ws(', ', each.l, each.r), each.result,
        format(body, each.name || each.l, ' NULL'));
    EXCEPTION WHEN OTHERS THEN
    END;
    BEGIN
      EXECUTE format('CREATE OPERATOR public.%s (%s RIGHTARG = %s, FUNCTION = public.operator_of)', each.name,
        'LEFTARG = ' || each.l || ',', each.r);
    EXCEPTION WHEN OTHERS THEN
    END;
  END LOOP;
  FOR each IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typelem = 0 LOOP
    EXECUTE format('CREATE TYPE public.%I AS (shadow integer)', each.typname);
  END LOOP;
END $do$`;

// With the first path, equal arguments are enough to shadow a function; with the second, they must fit better.
for (const path of ["public, pg_catalog", '"$user", public']) {
  for (const owner of ["gardener", "postgres"]) {
    test(
      `nothing of another role is executed by ${owner} with the path ${path}`,
      OPTIONS,
      async (t) => {
        const { cluster, database } = await shared.createStore();
        const at = (user: string, query = "") => cluster.url(database, user, query);
        const run = (user: string, text: string) => runSql({ connectionString: at(user) }, text);
        await cluster.sql(
          "DROP SCHEMA plant_store CASCADE; GRANT CREATE ON SCHEMA public TO PUBLIC",
          database,
        );
        for (const role of ["gardener", "hostile"])
          await cluster.sql(`CREATE ROLE ${role} LOGIN`).catch(() => {});
        await cluster.sql(`ALTER DATABASE ${database} OWNER TO gardener`);
        await run("hostile", SHADOW_ALL);
        await cluster.sql(`ALTER DATABASE ${database} SET search_path = ${path}`);
        await run(owner, printSchema());

        const { tokenTable } = await openStore(t, { url: at(owner) });
        await tokenTable.create({ name: "first", scopes: ["write"] });
        const { plants, tokens } = await openStore(t, { url: at("plant_store") });
        assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "created");
        assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "replayed");
        await assert.rejects(plants.create({ id: 7n, name: "Moss" }), { code: "conflict" });
        assert.ok(await plants.getLine(7n));
        assert.equal((await listPlants(plants)).length, 1);
        await tokenTable.revoke("first");
        await tokens.refresh();
        assert.deepEqual(tokens.list(), []);
        assert.equal(await tokenTable.import(await tokenTable.list()), 0);

        const looted = "SELECT DISTINCT who, what FROM public.loot WHERE who <> 'hostile'";
        const login = { connectionString: at("postgres", "?options=-csearch_path%3Dpg_catalog") };
        assert.deepEqual(await runSql(login, looted), []);
        for (const text of ["SELECT 1 + 1", "SELECT concat('a'::text, 'b'::text)"]) {
          await run(owner, text).catch(() => {});
        }
        assert.notDeepEqual(
          await runSql(login, looted),
          [],
          "a statement without the path is looted",
        );
      },
    );
  }
}

test("a schema that another role has made is not used for the tables", OPTIONS, async () => {
  const { cluster, database } = await shared.createStore();
  const creating = runSql({ connectionString: cluster.url(database) }, printSchema());
  await assert.rejects(creating, { code: "42P06" });
});
