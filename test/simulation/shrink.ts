/**
 * Shortens the plan of a life that failed: takes parts out as long as the life still fails in the same way.
 *
 * It knows plans as JSON only: lists lose halves, quarters and so on down to single items, then switches go off
 * and numbers go down. A plan that makes no sense any more fails in another way, so it is not kept.
 */

type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

export class Shrinker<P> {
  /** How many plans were tried. */
  attempts = 0;
  #plan: Json;
  readonly #fails: (plan: P) => Promise<boolean>;
  readonly #isLate: () => boolean;

  /**
   * @param fails runs a plan, and says whether it fails as the first one did.
   * @param isLate when to be content.
   */
  constructor(plan: P, fails: (plan: P) => Promise<boolean>, isLate: () => boolean) {
    this.#plan = JSON.parse(JSON.stringify(plan)) as Json;
    this.#fails = fails;
    this.#isLate = isLate;
  }

  async run(): Promise<P> {
    let before: string;
    do {
      before = JSON.stringify(this.#plan);
      await this.#shortenLists();
      await this.#shortenLeaves();
    } while (JSON.stringify(this.#plan) !== before && !this.#isLate());
    return this.#plan as P;
  }

  /** Keeps the plan with another value at the path, if it still fails. */
  async #try(path: Path, value: Json): Promise<boolean> {
    if (this.#isLate()) return false;
    this.attempts++;
    const changed = withValue(this.#plan, path, value);
    if (!(await this.#fails(structuredClone(changed) as P))) return false;
    this.#plan = changed;
    return true;
  }

  /** The longest lists first, because most is gained there. */
  async #shortenLists(): Promise<void> {
    const lists = pathsOf(this.#plan).filter((path) => Array.isArray(valueAt(this.#plan, path)));
    const size = (path: Path) => JSON.stringify(valueAt(this.#plan, path)).length;
    lists.sort((one, other) => size(other) - size(one));
    for (const path of lists) await this.#shortenList(path);
  }

  async #shortenList(path: Path): Promise<void> {
    let list = valueAt(this.#plan, path);
    if (!Array.isArray(list)) return; // taken out with a list around it
    for (let size = list.length; size >= 1; size = Math.floor(size / 2)) {
      for (let start = list.length - size; start >= 0; start -= size) {
        const rest: Json[] = [...list.slice(0, start), ...list.slice(start + size)];
        if (await this.#try(path, rest)) list = rest;
      }
    }
  }

  async #shortenLeaves(): Promise<void> {
    for (const path of pathsOf(this.#plan)) {
      const value = valueAt(this.#plan, path);
      if (value === true) await this.#try(path, false);
      if (typeof value !== "number" || value === 0) continue;
      if (await this.#try(path, 0)) continue;
      if (Math.abs(value) > 1) await this.#try(path, Math.trunc(value / 2));
    }
  }
}

type Path = readonly (string | number)[];

/** Of all values in it, outer ones first. */
function pathsOf(json: Json, path: Path = []): Path[] {
  if (typeof json !== "object" || json === null) return [path];
  const names = Array.isArray(json) ? [...json.keys()] : Object.keys(json);
  const inner = names.flatMap((name) => pathsOf(memberOf(json, name) as Json, [...path, name]));
  return [path, ...inner];
}

function memberOf(json: Json | undefined, name: string | number): Json | undefined {
  return (json as Record<string | number, Json> | undefined)?.[name];
}

function valueAt(json: Json, path: Path): Json | undefined {
  return path.reduce<Json | undefined>(memberOf, json);
}

function withValue(json: Json, path: Path, value: Json): Json {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  const changed = (Array.isArray(json) ? [...json] : { ...(json as object) }) as Record<
    string,
    Json
  >;
  changed[name] = withValue(changed[name] as Json, rest, value);
  return changed as Json;
}
