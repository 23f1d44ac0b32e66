/** `npm run crash`: more rounds of the kills and power cuts in this folder. */
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const HELP = `Options:
  --rounds N      SIGKILL at random moments under load (500)
  --power-cuts N  power cuts of a disk in each scenario (50); needs root and loop devices, and is faster with
                  TMPDIR=/dev/shm
  --ci            20 rounds, and 2 power cuts in each scenario
`;

const { values } = parseArgs({
  options: {
    rounds: { type: "string" },
    "power-cuts": { type: "string" },
    ci: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});

if (values.help) process.stdout.write(HELP);
else {
  process.env.CRASH_ROUNDS = values.rounds ?? (values.ci ? "20" : "500");
  process.env.CRASH_CUTS = values["power-cuts"] ?? (values.ci ? "2" : "50");
  const names = ["kills.slow.test.ts", "power-cuts.slow.test.ts"];
  const files = names.map((name) => fileURLToPath(new URL(name, import.meta.url)));
  run({ files, concurrency: false })
    .on("test:fail", () => {
      process.exitCode = 1;
    })
    .compose(new spec())
    .pipe(process.stdout);
}
