/** "Did you mean …": the nearest of some names to a mistyped one. */

/** The name that is at most a third of its letters away, or `undefined`. */
export function suggest(typed: string, names: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let least = Number.POSITIVE_INFINITY;
  for (const name of names) {
    const distance = editDistance(typed, name);
    if (distance < least && distance <= Math.ceil(name.length / 3)) {
      least = distance;
      nearest = name;
    }
  }
  return nearest;
}

/** Levenshtein distance: letters to insert, remove or replace; row by row. */
function editDistance(from: string, to: string): number {
  if (from.length > 64) return Number.POSITIVE_INFINITY; // no name is that long
  let previous = Array.from({ length: to.length + 1 }, (_, at) => at);
  for (let row = 1; row <= from.length; row++) {
    const current = [row];
    for (let column = 1; column <= to.length; column++) {
      const replace = (previous[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1);
      const remove = (previous[column] ?? 0) + 1;
      const insert = (current[column - 1] ?? 0) + 1;
      current.push(Math.min(replace, remove, insert));
    }
    previous = current;
  }
  return previous[to.length] ?? 0;
}
