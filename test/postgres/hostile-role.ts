/**
 * A role that may create objects in the schema `public`, as every role may before PostgreSQL 15, and shadows
 * there all of `pg_catalog` that it can: whatever runs one of its functions leaves its name in `public.loot`.
 */

/** Run as that role, in an empty database. A type comes last, because functions would have arguments of it. */
export const SHADOW_ALL = `
SET search_path = pg_catalog;
SET check_function_bodies = off;
CREATE TABLE public.loot (who text, what text);
GRANT INSERT, SELECT ON public.loot TO PUBLIC;
DO $do$
DECLARE
  body text := $body$ LANGUAGE plpgsql SET search_path = pg_catalog AS $f$BEGIN
    INSERT INTO public.loot VALUES (current_user, %1$L); RETURN%2$s; END$f$$body$;
  types text[] := ARRAY['oid', 'regclass', 'regrole', 'name', 'text', 'bigint', 'integer', 'smallint', '"char"',
    'boolean', 'interval', 'anyelement'];
  each record;
BEGIN
  FOR each IN
    SELECT p.proname, p.oid::regprocedure::text AS what, p.prorettype::regtype::text AS result, p.proretset, p.prokind,
      (SELECT coalesce(string_agg(CASE WHEN p.provariadic <> 0 AND n = p.pronargs THEN 'VARIADIC ' ELSE '' END
        || format_type(t, NULL), ', ' ORDER BY n), '') FROM unnest(p.proargtypes) WITH ORDINALITY u (t, n)) AS arguments
    FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace
  LOOP
    BEGIN
      IF each.prokind = 'a' THEN
        EXECUTE format('CREATE FUNCTION public.sum_of_%1$s(text, %2$s) RETURNS text'
          || format(body, each.what, ' NULL'), each.proname, each.arguments);
        EXECUTE format('CREATE AGGREGATE public.%1$I(%2$s) (SFUNC = public.sum_of_%1$s, STYPE = text)',
          each.proname, each.arguments);
      ELSE
        EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s %s', each.proname, each.arguments,
          CASE WHEN each.proretset THEN 'SETOF ' ELSE '' END || each.result,
          format(body, each.what, CASE WHEN each.proretset OR each.result = 'void' THEN '' ELSE ' NULL' END));
      END IF;
    EXCEPTION WHEN OTHERS THEN -- PL/pgSQL has no arguments of type internal, cstring and "any"
    END;
  END LOOP;

  -- Those of "any", and better matches for arguments that the system has to cast.
  FOR each IN
    SELECT name, string_agg(type, ', ') AS arguments
    FROM unnest('{concat,format,unnest,array_append,to_regrole,current_setting,set_config}'::text[]) name,
      unnest('{text,name,bigint[],text[],regrole,oid}'::text[]) type, generate_series(1, 4) GROUP BY name, type
    UNION SELECT 'unnest', 'bigint[], text[], text[], text[]'
    UNION SELECT name, a || ', ' || b FROM unnest('{concat,format}'::text[]) name,
      unnest('{text,name,regrole,bigint}'::text[]) a, unnest('{text,name,regrole,bigint}'::text[]) b
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS text %s', each.name, each.arguments,
        format(body, each.name, ' NULL'));
    EXCEPTION WHEN OTHERS THEN
    END;
  END LOOP;

  FOR each IN
    SELECT oprname, format_type(nullif(oprleft, 0), NULL) AS l, format_type(oprright, NULL) AS r, oprresult::regtype AS result
    FROM pg_operator WHERE oprnamespace = 'pg_catalog'::regnamespace
    UNION SELECT o, l, r, CASE WHEN o IN ('+', '-', '&', '||') THEN r ELSE 'boolean' END::regtype
    FROM unnest('{=,<>,<,>,<=,>=,+,-,&,||}'::text[]) o,
      unnest(types) l,
      unnest(types) r
  LOOP
    BEGIN
      EXECUTE format('CREATE FUNCTION public.operator_of(%s) RETURNS %s %s', concat_ws(', ', each.l, each.r), each.result,
        format(body, format('%s(%s, %s)', each.oprname, each.l, each.r), ' NULL'));
    EXCEPTION WHEN OTHERS THEN
    END;
    BEGIN
      EXECUTE format('CREATE OPERATOR public.%s (%s RIGHTARG = %s, FUNCTION = public.operator_of)', each.oprname,
        'LEFTARG = ' || each.l || ',', each.r);
    EXCEPTION WHEN OTHERS THEN
    END;
  END LOOP;

  FOR each IN SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype = 'b' AND typelem = 0 LOOP
    EXECUTE format('CREATE TYPE public.%I AS (shadow integer)', each.typname);
  END LOOP;
END $do$`;
