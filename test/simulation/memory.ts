/**
 * Large buffers that the worlds of a simulation use one after the other: a store takes some 12 MB for each
 * start, and the garbage collector would run every few rounds.
 *
 * Invariant. Only what is asked for while the clock runs an event is lent, and only the end of that world takes
 * it back: nothing else in the process shares it.
 */
const LARGE_BYTES = 64 * 1024;

const free = new Map<number, Buffer[]>();
let lent: Buffer[] = [];
let isLending = false;

function lend(bytes: number, make: (bytes: number) => Buffer): Buffer {
  if (!isLending || bytes < LARGE_BYTES) return make(bytes);
  const buffer = free.get(bytes)?.pop() ?? make(bytes);
  lent.push(buffer);
  return buffer;
}

for (const name of ["allocUnsafe", "allocUnsafeSlow"] as const) {
  const make = Buffer[name].bind(Buffer);
  Buffer[name] = ((bytes: number) => lend(bytes, make)) as (typeof Buffer)[typeof name];
}

/** Whether buffers are lent from now on. */
export function lendBuffers(isOn: boolean): void {
  isLending = isOn;
}

/** The world that borrowed them has ended. */
export function takeBuffersBack(): void {
  for (const buffer of lent) {
    const same = free.get(buffer.length);
    if (same === undefined) free.set(buffer.length, [buffer]);
    else same.push(buffer);
  }
  lent = [];
}
