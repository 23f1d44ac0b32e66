/** All rows for a store that works. */
import type { Case } from "./case.ts";
import { CONNECTIONS } from "./connections.ts";
import { CORS } from "./cors.ts";
import { FRAMING } from "./framing.ts";
import { PLANTS } from "./plants.ts";
import { READS } from "./reads.ts";
import { REQUESTS } from "./requests.ts";

export const ALL: readonly Case[] = [
  ...PLANTS,
  ...FRAMING,
  ...REQUESTS,
  ...CONNECTIONS,
  ...READS,
  ...CORS,
];
