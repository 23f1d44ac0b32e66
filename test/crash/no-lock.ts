/**
 * FAKE lock: every process gets it. Stands in for `src/log/lock.ts` in the
 * program that shows what a log is worth where every lock fails.
 */
export class DirectoryLock {
  readonly lost = new Promise<Error>(() => {});

  static async acquire(): Promise<DirectoryLock> {
    return new DirectoryLock();
  }

  async release(): Promise<void> {}
}

export async function askDurableBytes(): Promise<number | undefined> {
  return undefined;
}
