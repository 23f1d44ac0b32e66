#!/usr/bin/env node
/**
 * The first file of the program: checks the version of Node.js, and only then loads the rest.
 *
 * Invariant: a version that cannot run the program ends here with one line and status 2, which a
 * supervisor does not retry. So this file imports nothing statically, because imports are resolved before
 * any line runs, and its syntax is that of Node 14.
 */

// Node would open its debugger to every user of the machine. Programs that rotate logs send this signal.
process.on("SIGUSR1", () => {});

if (isSupported(process.versions.node)) {
  import("./program.ts");
} else {
  process.stderr.write(
    `plant-store: expected Node.js 22.12 or later, or 20.19 or later within version 20, got ${process.versions.node}; install one of these, or use the executable, which contains Node.js\n`,
  );
  process.exit(2);
}

/** The same versions as `engines` in package.json. Earlier ones cannot `require()` the library. */
function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major === 20) return minor >= 19;
  return major === 22 ? minor >= 12 : major > 22;
}
