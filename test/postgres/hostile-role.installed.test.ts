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
  each record;
BEGIN
  FOR each IN
    SELECT proname AS name, prorettype::regtype::text AS result, proretset AS is_set,
      pg_get_function_identity_arguments(oid) AS arguments FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace
    -- PL/pgSQL has no arguments of type "any".
    UNION ALL SELECT name, 'text', false, arguments FROM unnest('{concat,concat_ws,format,count,max,set_config}'::text[]) name,
      unnest('{text,bigint,"text, name","text, text","text, bigint, bigint, bigint"}'::text[]) arguments
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s %s', each.name, each.arguments,
        CASE WHEN each.is_set THEN 'SETOF ' ELSE '' END || each.result,
        format(body, each.name, CASE WHEN each.is_set OR each.result = 'void' THEN '' ELSE ' NULL' END));
    EXCEPTION WHEN OTHERS THEN -- of type internal or cstring
    END;
  END LOOP;
  FOR each IN SELECT oprname, format_type(nullif(oprleft, 0), NULL) AS l, format_type(oprright, NULL) AS r,
    oprresult::regtype AS result FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace
  LOOP
    BEGIN
      EXECUTE format('CREATE OR REPLACE FUNCTION public.operator_%s(%s) RETURNS %s %s', each.result::oid,
        concat_ws(', ', each.l, each.r), each.result, format(body, each.oprname, ' NULL'));
      EXECUTE format('CREATE OPERATOR public.%s (%s RIGHTARG = %s, FUNCTION = public.operator_%s)', each.oprname,
        'LEFTARG = ' || each.l || ',', each.r, each.result::oid);
    EXCEPTION WHEN OTHERS THEN
    END;
  END LOOP;
  FOR each IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typelem = 0 LOOP
    EXECUTE format('CREATE TYPE public.%I AS (shadow integer)', each.typname);
  END LOOP;
END $do$`;

for (const owner of ["gardener", "postgres"]) {
  test(`nothing of another role is executed by ${owner}, or by the servers`, OPTIONS, async (t) => {
    const { cluster, database } = await shared.createStore();
    const at = (user: string, query?: string) => cluster.url(database, user, query);
    const run = (url: string, text: string) => runSql({ connectionString: url }, text);
    const reset = "DROP SCHEMA plant_store CASCADE; GRANT CREATE ON SCHEMA public TO PUBLIC";
    await cluster.sql(reset, database);
    for (const role of ["gardener", "hostile"]) {
      await cluster.sql(`CREATE ROLE ${role} LOGIN`).catch(() => {});
    }
    await cluster.sql(`ALTER DATABASE ${database} OWNER TO gardener`);
    await run(at("hostile"), SHADOW_ALL);
    await cluster.sql(`ALTER DATABASE ${database} SET search_path = public, pg_catalog`);
    await run(at(owner), printSchema());

    const { tokenTable } = await openStore(t, { url: at(owner) });
    await tokenTable.create({ name: "first", scopes: ["write"] });
    const { plants, tokens } = await openStore(t, { url: at("plant_store") });
    assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "created");
    assert.equal(await plants.create({ id: 7n, name: "Fern", tag: "indoor" }), "replayed");
    assert.ok(await plants.getLine(7n));
    assert.equal((await listPlants(plants)).length, 1);
    await tokenTable.revoke("first");
    await tokens.refresh();
    assert.deepEqual(tokens.list(), []);
    assert.equal(await tokenTable.import(await tokenTable.list()), 0);

    const own = at("postgres", "?options=-csearch_path%3Dpg_catalog");
    const looted = "SELECT DISTINCT who, what FROM public.loot WHERE who <> 'hostile'";
    assert.deepEqual(await run(own, looted), []);
    await run(at(owner), "SELECT 1 + 1");
    assert.equal((await run(own, looted))[0]?.[0], owner, "without the path it is executed");
  });
}
