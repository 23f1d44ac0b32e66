/** Work that runs beside a measurement until it is stopped, and then has a result. */
export interface Ongoing<T> {
  /** Resolves with the result, or rejects with an error of the work, also one from long before. */
  stop(): Promise<T>;
}

/** Starts the work, which has to check whether it is over. */
export function untilStopped<T>(run: (isOver: () => boolean) => Promise<T>): Ongoing<T> {
  let isOver = false;
  const running = run(() => isOver);
  running.catch(() => {}); // `stop` rejects with it
  return {
    stop: () => {
      isOver = true;
      return running;
    },
  };
}
