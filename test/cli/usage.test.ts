/** Help, and what a wrong command line is told: what was expected, what came, what to do. */
import { readFileSync } from "node:fs";
import { type Row, testRows } from "./table.ts";

const { version } = JSON.parse(
  readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
);

testRows("help and version", [
  { args: "--version", status: 0, stdout: `${version}\n` },
  ...["--help", "-h", "help", "token --help"].map((args): Row => {
    return { args, status: 0, stdout: /\bserve [\s\S]*\btoken create NAME [\s\S]*\bget ID / };
  }),
  { args: "", status: 2, stderr: /\btoken create NAME / },
  ...["serve --port --help", "help serve"].map((args): Row => {
    return { args, status: 0, stdout: /^Usage: .* serve [\s\S]*PLANT_STORE_PORT/ };
  }),
  { args: "print openapi -h", status: 0, stdout: /^Usage: plant-store print openapi\n\n.*\n$/ },
]);

/** What the one line on standard error has, beside what was expected. */
const WRONG: readonly [args: string, said: RegExp][] = [
  ["start", /\(serve, .*print systemd-unit\), got "start"; see plant-store --help/],
  ["token crate x", /\(token create, .*token import\), got "token crate"/],
  ["--data=secret serve", /got "--data"/],
  ["get 7.5", /int64 as ID, from -9223372036854775808 to .*, got "7\.5"/],
  ["token create a/b", /name: expected 1 to 64 letters.*, got "a\/b"/],
  ["token create a --scope reed", /--scope: .*write or read, got "reed"/],
  ["token create a --expires 90", /--expires: .*90d, 12h or 2030-01-31, got "90"/],
  ["serve --log loud", /--log: .*json, text or off, got "loud"/],
  ["serve --admin /run/x", /--admin: .*127\.0\.0\.1:9180.*, got "\/run\/x"/],
  ["serve --base-path garden", /--base-path: .*\/garden, got "garden"/],
  ["serve --cors-origin https://a.example/", /--cors-origin: .*https:\/\/app\.example/],
  ["serve --request-timeout-ms 2147483648", /a whole number from 1 to 2147483647, got/],
  ["serve --tls-key k", /both --tls-cert and --tls-key/],
  ["serve --database-require-sync", /--database-require-sync: .*--database with it/],
  ["export --database postgresql://a:pw@b/c", /no password in an argument/],
  ["export --database postgresql://b/c --data DATA", /one of --data, --database and/],
  ["backup", /TARGET or --into DIR, got neither/],
  ["backup NEW --into NEW", /TARGET or --into DIR, got "NEW" and/],
  ["import DATA", /the folder "DATA"; .*plants\.jsonl/],
  ["print schema --role=$x", /--role: .*, got "\$x"/],
  ['print schema --role=a"b', /--role: /],
  ["print schema --role=a\nb", /--role: .*, got "a\\u000ab"/],
];

testRows(
  "wrong usage",
  WRONG.map(([args, { source }]): Row => {
    return {
      args,
      status: 2,
      stderr: new RegExp(`^plant-store: (?=.*expected ).*${source}.*\\n$`),
    };
  }),
);
