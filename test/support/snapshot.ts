/** The contents of a folder, to show that files are unchanged to the byte. */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";

/** The content of every file, by its name; sockets are left out. */
export function snapshot(folder: string): Record<string, string> {
  const files = readdirSync(folder).filter((name) => statSync(join(folder, name)).isFile());
  return Object.fromEntries(
    files.sort().map((name) => [name, readFileSync(join(folder, name), "latin1")]),
  );
}
