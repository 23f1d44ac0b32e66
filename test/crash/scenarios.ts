/** All scenarios of the kill matrix. */
import { COPIES } from "./copy-scenarios.ts";
import { REPAIRS } from "./repair-scenarios.ts";
import type { Scenario } from "./scenario.ts";
import { SESSIONS } from "./session-scenarios.ts";
import { TOKEN_CREATES } from "./token-scenarios.ts";

export const SCENARIOS: readonly Scenario[] = [
  ...SESSIONS,
  ...TOKEN_CREATES,
  ...REPAIRS,
  ...COPIES,
];
