/**
 * FAKE lock, which every process gets. It replaces `src/log/lock.ts` in the program that shows how
 * safe a log is if the lock fails.
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
