#!/usr/bin/env node
/**
 * The first file of the program: checks the version of Node.js, and only then loads the rest. So it imports
 * nothing statically, and its syntax is that of Node 14. Status 2 keeps a supervisor from trying again.
 */

// Node would open its debugger to every user of the machine. Programs that rotate logs send this signal.
process.on("SIGUSR1", () => {});

// The same versions as `engines` in package.json.
const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
if ((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22) {
  import("./program.ts");
} else {
  process.stderr.write(
    `plant-store: expected Node.js 22.12 or later, or 20.19 or later within version 20, got ${process.versions.node}; install one of these, or use the executable, which contains Node.js\n`,
  );
  process.exit(2);
}
