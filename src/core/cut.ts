/** How much of what came a message shows: it is read by people. */

const SHOWN_CHARACTERS_MAX = 60;

export function cut(text: string): string {
  if (text.length <= SHOWN_CHARACTERS_MAX) return text;
  // A cut through a surrogate pair would show half a character.
  const head = text.slice(0, SHOWN_CHARACTERS_MAX).replace(/[\ud800-\udbff]$/, "");
  return `${head}…`;
}
