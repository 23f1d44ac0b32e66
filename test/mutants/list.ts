/** All mutants. */
import { CORE } from "./core.ts";
import { HTTP } from "./http.ts";
import { type Mutant, parseMutants } from "./mutants.ts";
import { POSTGRES } from "./postgres.ts";
import { PROGRAM } from "./program.ts";
import { SIMULATED } from "./simulated.ts";

export const MUTANTS: readonly Mutant[] = [
  ...parseMutants(CORE + HTTP + PROGRAM + POSTGRES, "tests"),
  ...parseMutants(SIMULATED, "simulation"),
];
