/**
 * Waits that an `AbortSignal` ends.
 *
 * Invariants. Only the wait ends: the work goes on, and its outcome is ignored. A wait that is over leaves no
 * listener on the signal, which may live as long as the process. Knows no plants.
 */

/**
 * Begins the work, and waits for it until the signal aborts.
 *
 * @throws the signal's reason, before the work begins if the signal has aborted already; else as the work.
 */
export async function untilAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  let abort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    abort = () => reject(signal.reason);
  });
  signal.addEventListener("abort", abort);
  try {
    return await Promise.race([work(), aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
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
    void items.return(undefined).catch(() => {}); // after the step that is under way
  }
}
