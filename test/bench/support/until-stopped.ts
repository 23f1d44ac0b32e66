/** Something that goes on beside what is measured until it is told to stop, and then tells how it was. */
export interface Ongoing<T> {
  /** Resolves with what came of it; rejects with what went wrong, also long before. */
  stop(): Promise<T>;
}

/** Begins it; it has to look whether it is over. */
export function untilStopped<T>(run: (isOver: () => boolean) => Promise<T>): Ongoing<T> {
  let isOver = false;
  const running = run(() => isOver);
  running.catch(() => {}); // told by `stop`
  return {
    stop: () => {
      isOver = true;
      return running;
    },
  };
}
