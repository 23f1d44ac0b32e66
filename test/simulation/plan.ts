/**
 * What happens in a simulated life: plain JSON, drawn, replayed and shrunk by fast-check.
 *
 * Invariants. A life belongs to one of three worlds, which share no fault but the death of the process. It draws
 * first which steps and faults it has at all: with all of them in each life, most would hide one another. Every
 * round names its own chance, so one that is left out changes no other.
 */
import fc from "fast-check";
import { encodeNewPlant, type NewPlant } from "../../src/core/plant.ts";
import { Random } from "./random.ts";
import { FAULTS, type Rates, RULE_NAMES } from "./rules.ts";

/**
 * `crash`: processes and power fail, and so do calls of the disk. `rot`: what was durable changes. `meddling`:
 * other programs change the log while a server runs.
 */
export type WorldName = "crash" | "rot" | "meddling";

const rulesOf = (kind: string) => RULE_NAMES.filter((rule) => rule.startsWith(kind));
const TOKENS = ["create token", "revoke token", "list tokens"];

type Choice = Record<"before" | "steps", string[]> & { faults: readonly Rates[] };

/** What the lives of a world choose from, besides creates, which all have. */
const CHOICES: Readonly<Record<WorldName, Choice>> = {
  crash: {
    before: ["export", "verify", "backup", "restore", "repair", ...TOKENS],
    steps: ["list", "import", "export", "verify", "backup", ...TOKENS, "ask", "set time"],
    faults: FAULTS,
  },
  rot: {
    before: [...rulesOf("rot: "), "verify", "export", "backup", "restore"],
    steps: ["list", "backup", ...TOKENS, "ask"],
    faults: [],
  },
  meddling: {
    before: ["verify", "backup"],
    steps: [...rulesOf("others: "), "list", "backup"],
    faults: [{ "append: a short count": 0.5, "append: no room": 0.3 }],
  },
};

const CALLS = ["append", "truncate", "sync", "syncFolder", "openForAppending", "rename", "unlink"];

type Drawn<Drawing> = Drawing extends fc.Arbitrary<infer Value> ? Value : never;

/** What a client, an operator, a disk or another program does. The numbers mean what the act makes of them. */
export type Step = Drawn<ReturnType<typeof stepOf>>;

function stepOf(acts: readonly string[]) {
  return fc.record({
    act: fc.constantFrom(...acts),
    client: fc.nat(2), // the steps of one client follow each other
    waitMs: fc.oneof({ weight: 6, arbitrary: fc.nat(3) }, fc.constantFrom(700, 2500, 11_000)),
    n: fc.nat(40),
    size: fc.integer({ min: 1, max: 6 }),
  });
}

export type Round = Drawn<ReturnType<typeof roundOf>>;

function roundOf(before: readonly string[], steps: readonly string[], roomMax: number) {
  const bounded = fc.integer({ min: Math.min(1, roomMax), max: roomMax });
  return fc.record({
    chance: fc.noShrink(fc.nat()),
    isCalm: fc.constantFrom(true, false, false), // nothing fails but power and process
    room: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, bounded), // for more bytes; 0: enough
    before: before.length === 0 ? fc.constant([]) : fc.array(stepOf(before), { maxLength: 2 }),
    steps: fc.array(stepOf(["create", "create", ...steps]), { maxLength: 12, size: "max" }),
    // The process dies at this moment of such calls, or when everything is done.
    end: fc.record({
      how: fc.constantFrom("stop", "kill", "kill", "cut", "cut"),
      moment: fc.oneof(...[6, 6, 30, 250].map((max) => fc.integer({ min: 1, max }))),
      call: fc.constantFrom("any call", "any call", "append", "append", ...CALLS),
    }),
  });
}

export type Life = Drawn<ReturnType<typeof lives>>;

export function lives(world: WorldName) {
  const choice = CHOICES[world];
  const chosen = fc.record({
    before: fc.subarray(choice.before),
    steps: fc.subarray(choice.steps),
    faults: fc.subarray([...choice.faults]),
  });
  return chosen.chain(({ before, steps, faults }) => {
    const rates = Object.entries<number>(Object.assign({}, ...faults)).map(([rule, rate]) => [
      rule,
      fc.constantFrom(0, rate / 10, rate / 3, rate),
    ]);
    const round = roundOf(before, steps, world === "crash" ? 4000 : 0);
    return fc.record({
      world: fc.constant(world),
      chance: fc.noShrink(fc.nat()),
      rates: fc.record(Object.fromEntries(rates)) as fc.Arbitrary<Rates>,
      plantBytesMax: fc.constantFrom(8, 40, 300, 1500),
      queueBytesMax: fc.constantFrom(2 ** 20, 2 ** 20, 600),
      rounds: fc.array(round, { minLength: 1, maxLength: 8, size: "max" }),
    });
  });
}

/** A plant of a life, with a line of even length (see harm.ts). Another version has the same id: a conflict. */
export function makePlant({ chance, plantBytesMax }: Life, number: number, version = 0): NewPlant {
  const random = new Random(`${chance}/plant ${number} ${version}`);
  const filler = "x".repeat(Math.floor(random.next() * plantBytesMax));
  const name = `${number}.${version} ${random.pick(["", "", "é", "\u2028", '"', "\ud800"])}${filler}`;
  const tag = random.pick([undefined, undefined, "", "t"]);
  // Most ids are small, some are longer than a number of JavaScript holds.
  const base = number % 7 === 3 ? 2n ** 53n : number % 11 === 4 ? -(2n ** 63n) : 0n;
  const id = base + BigInt(number);
  const plant = tag === undefined ? { id, name } : { id, name, tag };
  const isEven = Buffer.byteLength(`${encodeNewPlant(plant)}\n`) % 2 === 0;
  return isEven ? plant : { ...plant, name: `${name}x` };
}
