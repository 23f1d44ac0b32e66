#!/usr/bin/env node
/**
 * The first file of the program: it keeps Node's debugger closed, judges the runtime, and only then
 * loads the rest.
 *
 * Invariant: a runtime that cannot run the program, and a program that lacks a file, end here with one
 * line and status 2, which a supervisor does not retry. So this file imports nothing statically, because
 * imports are resolved before any line runs, and its syntax is that of Node 14.
 */

// Node would open its debugger to every user of the machine. Programs that rotate logs send this
// signal, and so may the owner of the data directory, when root has become that user.
process.on("SIGUSR1", () => {});

const fault = findFault();
// No top-level await: the one file of the executable is CommonJS.
if (fault !== undefined) refuse(fault);
else {
  import("./program.ts").catch(({ message }) => {
    refuse(`cannot load the program, install it again: ${message}`);
  });
}

function refuse(why: string): void {
  // The reason may name a path, and nothing is loaded that could escape it.
  process.stderr.write(`plant-store: ${why.replace(/[^ -~]/g, "?")}\n`);
  process.exit(2);
}

/** Why this runtime cannot run the program. */
function findFault(): string | undefined {
  const { bun, deno, node } = process.versions;
  if (bun !== undefined) return `cannot run under Bun ${bun}: run it with Node.js`;
  if (deno !== undefined) return `cannot run under Deno ${deno}: run it with Node.js`;
  if (!isSupported(node)) {
    return `expected Node.js 22.12 or later, or 20.19 or later within version 20, got ${node}; install one of these, or use the executable, which contains Node.js`;
  }
  if (process.permission !== undefined) {
    return "cannot run under --permission: Node.js refuses fsync there, so no plant would be durable; start node without that flag";
  }
  return undefined;
}

/** The same versions as `engines` in package.json. Earlier ones cannot `require()` the library. */
function isSupported(version: string): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major === 20) return minor >= 19;
  return major === 22 ? minor >= 12 : major > 22;
}
