/**
 * Hands the large buffers of one life out again in the next: a start takes 10 MB of them, and the garbage
 * collector would take a third of the time of a life (measured).
 *
 * Invariant. Within a life each is handed out once. Their content is what it was, as that of any new buffer.
 */

const LARGE_BYTES = 512 * 1024;

const buffers = new Map<number, Buffer[]>();
/** How many of a size this life has taken. */
let taken = new Map<number, number>();

/** Begins a life: nobody uses the buffers of the last one any more. */
export function reuseBuffers(): void {
  taken = new Map();
}

for (const name of ["allocUnsafe", "allocUnsafeSlow"] as const) {
  const allocate = Buffer[name];
  Buffer[name] = (bytes: number) => {
    if (bytes < LARGE_BYTES) return allocate(bytes) as Buffer<ArrayBuffer>;
    const known = buffers.get(bytes) ?? [];
    if (known.length === 0) buffers.set(bytes, known);
    const at = taken.get(bytes) ?? 0;
    taken.set(bytes, at + 1);
    known[at] ??= allocate(bytes);
    return known[at] as Buffer<ArrayBuffer>;
  };
}
