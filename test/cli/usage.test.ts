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
  {
    args: "serve --help",
    status: 0,
    stdout: /^Usage: plant-store serve [\s\S]*PLANT_STORE_BASE_PATH/,
  },
  {
    args: "print openapi -h",
    status: 0,
    stdout: "Usage: plant-store print openapi\n\nprint the OpenAPI 3.1.0 document\n",
  },
]);

/** One line: what was expected, what came, what to do. */
const wrong = (args: string, stderr: string | RegExp, more: Partial<Row> = {}): Row => ({
  args,
  status: 2,
  stderr: typeof stderr === "string" ? `plant-store: ${stderr}\n` : stderr,
  ...more,
});

testRows("wrong usage", [
  wrong(
    "start",
    /^plant-store: expected a command \(serve, .*print systemd-unit\), got "start"; see plant-store --help\n$/,
  ),
  wrong("token crate x", /expected a command \(token create, .*import\), got "token crate"; see/),
  wrong("--data=secret serve", /, got "--data"; see plant-store --help\n$/),
  wrong("get 7.5", /get: expected an int64 as ID, from -9223372036854775808 to .*, got "7\.5"\n$/),
  wrong(
    "token create a/b",
    'token create: expected a NAME of 1 to 64 letters, digits and ._@-, got "a/b"',
  ),
  wrong("token create a --scope reed", '--scope: expected write or read, got "reed"'),
  wrong(
    "token create a --expires 90",
    '--expires: expected a time in the future, such as 90d, 12h or 2030-01-31, got "90"',
  ),
  wrong("serve --log loud", '--log: expected json, text or off, got "loud"'),
  wrong(
    "serve --admin /run/x",
    '--admin: expected HOST:PORT, such as 127.0.0.1:9180, or a port, got "/run/x"',
  ),
  wrong("serve --base-path garden", '--base-path: expected a path such as /garden, got "garden"'),
  wrong("serve --cors-origin https://a.example/", /^plant-store: --cors-origin: expected origins/),
  wrong("serve --request-timeout-ms 2147483648", /a whole number from 1 to 2147483647, got/),
  wrong("serve --tls-key k", /expected both --tls-cert and --tls-key/),
  wrong(
    "serve --database-require-sync",
    "serve: --database-require-sync: expected --database with it",
  ),
  wrong("export --database postgresql://a:pw@b/c", /expected no password in an argument/),
  wrong("backup", "backup: expected TARGET or --into DIR, got neither"),
  wrong(
    "backup NEW --into NEW",
    /^plant-store: backup: expected TARGET or --into DIR, got "NEW" and/,
  ),
  ...["$x", 'a"b', "a\nb", ""].map((role) =>
    wrong(`print schema --role=${role}`, /^plant-store: --role: expected /),
  ),
]);
