/** All mutants. */
import { CORE_MUTANTS } from "./core.ts";
import { HTTP_MUTANTS } from "./http.ts";
import type { Mutant } from "./mutants.ts";
import { POSTGRES_MUTANTS } from "./postgres.ts";
import { PROGRAM_MUTANTS } from "./program.ts";
import { SIMULATED_MUTANTS } from "./simulated.ts";

export const MUTANTS: readonly Mutant[] = [
  ...CORE_MUTANTS,
  ...HTTP_MUTANTS,
  ...PROGRAM_MUTANTS,
  ...POSTGRES_MUTANTS,
  ...SIMULATED_MUTANTS,
];
