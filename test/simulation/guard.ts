/**
 * Forbids time, chance, files and sockets of the real process while a simulated life runs.
 *
 * Invariants. Inside `guarded` each of them throws, and `Date` gives the wall time of the simulated clock. The
 * functions are replaced when this file is loaded: load it before any file of the program, so that a function
 * which a file takes when it is loaded is watched, too.
 */
import childProcess from "node:child_process";
import crypto from "node:crypto";
import fs from "node:fs";
import fsPromises from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import net from "node:net";
import os from "node:os";
import timers from "node:timers";
import timersPromises from "node:timers/promises";
import { clock, replaceClock } from "../../src/clock.ts";
import type { Clock } from "../../src/core/services.ts";
// It takes the real turns of the event loop, which drive the simulation, before they are forbidden.
import "./clock.ts";

let isGuarded = false;

/** Runs a life. What the real world is asked for meanwhile is a mistake of the program or of the simulation. */
export async function guarded<T>(life: () => Promise<T>): Promise<T> {
  isGuarded = true;
  try {
    return await life();
  } finally {
    isGuarded = false;
  }
}

/** The real monotonic clock, for whoever measures a life. */
export const realMs = performance.now.bind(performance);

type Called = (...args: never[]) => unknown;

function watched<T extends Called>(name: string, original: T): T {
  return new Proxy(original, {
    apply(target, self, args) {
      if (isGuarded) throw new Error(`${name}: a simulated life asked the real world`);
      return Reflect.apply(target, self, args);
    },
  });
}

function watch(room: string, owner: object, names: readonly string[]): void {
  for (const name of names) {
    const original: unknown = Reflect.get(owner, name);
    if (typeof original !== "function") continue; // not in this version of Node
    const value = watched(`${room}.${name}`, original as Called);
    Object.defineProperty(owner, name, { value, configurable: true, writable: true });
  }
}

/** The functions of a module; its classes, and what Node keeps for itself, are left. */
function functionsOf(owner: object): string[] {
  return Object.keys(owner).filter((name) => /^[a-z]/.test(name));
}

const TIMERS = ["setTimeout", "setInterval", "setImmediate"];

watch("fs", fs, functionsOf(fs));
watch("fs.promises", fsPromises, functionsOf(fsPromises));
watch("child_process", childProcess, functionsOf(childProcess));
watch("net", net, ["connect", "createConnection", "createServer"]);
watch("net.Socket", net.Socket.prototype, ["connect"]);
watch("net.Server", net.Server.prototype, ["listen"]);
watch("os", os, ["freemem", "loadavg", "totalmem", "uptime"]);
watch("timers", timers, TIMERS);
watch("timers/promises", timersPromises, TIMERS);
watch("globalThis", globalThis, [...TIMERS, "fetch"]);
watch("AbortSignal", AbortSignal, ["timeout"]);
watch("performance", performance, ["now", "mark", "measure"]);
watch("process.hrtime", process.hrtime, ["bigint"]);
watch("process", process, ["hrtime", "uptime", "cpuUsage", "memoryUsage", "resourceUsage"]);
watch("Math", Math, ["random"]);
const RANDOM = ["randomBytes", "randomFill", "randomFillSync", "randomInt", "randomUUID"];
watch("crypto", crypto, [...RANDOM, "generateKey", "generateKeyPair"]);
watch("globalThis.crypto", globalThis.crypto, ["getRandomValues", "randomUUID"]);

globalThis.Date = new Proxy(Date, {
  construct(target, args, newTarget) {
    const given = isGuarded && args.length === 0 ? [clock.wallMs()] : args;
    return Reflect.construct(target, given, newTarget);
  },
  apply: (target) => (isGuarded ? new target(clock.wallMs()).toString() : target()),
  get(target, name) {
    if (name === "now" && isGuarded) return () => clock.wallMs();
    return Reflect.get(target, name);
  },
});

const systemClock = Object.entries(clock).map(([name, run]) => [
  name,
  watched(`clock.${name}`, run),
]);
replaceClock(Object.fromEntries(systemClock) as Clock);
syncBuiltinESMExports();
