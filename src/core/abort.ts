/**
 * Waits that an `AbortSignal` ends.
 *
 * Invariants. Only the wait ends: the work goes on, and its outcome is ignored. All waits for a signal share one
 * listener, because Node.js warns of a leak at eleven. The last wait that is over removes it: the signal may live
 * as long as the process. Knows no plants.
 */

/** What rejects each wait for a signal. */
const waitsOf = new WeakMap<AbortSignal, Set<() => void>>();

function endWaits(this: AbortSignal): void {
  for (const end of waitsOf.get(this) ?? []) end();
}

/**
 * Begins the work, and waits for it until the signal aborts.
 *
 * @throws the signal's reason, before the work begins if the signal has aborted already; else as the work.
 */
export async function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const waits = waitsOf.get(signal) ?? new Set();
  waitsOf.set(signal, waits);
  let end = () => {};
  const aborted = new Promise<never>((_, reject) => {
    end = () => reject(signal.reason);
  });
  waits.add(end);
  signal.addEventListener("abort", endWaits); // does nothing if it listens already
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    waits.delete(end);
    if (waits.size === 0) signal.removeEventListener("abort", endWaits);
  }
}

/** Yields the items until the signal aborts. @throws as `untilAborted`. */
export async function* eachUntilAborted<T>(
  signal: AbortSignal,
  items: AsyncGenerator<T>,
): AsyncGenerator<T> {
  try {
    for (;;) {
      const { done, value } = await untilAborted(signal, () => items.next());
      if (done === true) return;
      yield value;
    }
  } finally {
    const ending = items.return(undefined);
    // After an abort it may wait for the step that is under way.
    if (signal.aborted) void ending.catch(() => {});
    else await ending;
  }
}
