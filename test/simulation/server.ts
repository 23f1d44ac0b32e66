/**
 * A server of a simulated life and its clients, with everything they are answered judged at once.
 *
 * Invariants. The store, the registry and the commands are the real ones. A client goes on after an error. What
 * arrives after the process has died is seen by nobody.
 */
import { type ErrorCode, PlantStoreError } from "../../src/core/errors.ts";
import type { NewPlant } from "../../src/core/plant.ts";
import type { CreateOutcome, PlantService } from "../../src/core/services.ts";
import { PlantStore, TokenRegistry } from "../../src/index.ts";
import { exportLines, importPlants, isSound, openImportFile, verifyLog } from "../../src/tools.ts";
import { DeadError } from "./disk.ts";
import { parseImage } from "./image.ts";
import type { Folder } from "./judge.ts";
import { Violation } from "./ledger.ts";
import type { Life } from "./life.ts";
import { makeBackup, newestBackup } from "./operator.ts";
import type { PlatterNode } from "./platter.ts";
import { lookAtTokens, useTokens } from "./tokens.ts";
import { type Command, idOf, makePlant, plantContent } from "./work.ts";

/** Errors that a fault of the disk, or another program, may cause. */
const FAULT_CODES = [
  "store_failed",
  "write_failed",
  "read_failed",
  "io_error",
  "unsynced",
  "locked",
];

export class Server {
  readonly life: Life;
  readonly folder: Folder;
  readonly store: PlantStore;
  readonly registry: TokenRegistry;
  /** The store of a second process, which has passed the lock. */
  #other: PlantStore | undefined;
  /** The log that is served. */
  readonly #log: PlatterNode | undefined;
  /** How many commands have begun to revoke a token, by its name. */
  readonly revokes = new Map<string, number>();
  /** The names of those that run. */
  readonly revoking: string[] = [];
  /** How often others had changed the log when this server began to read it, and the tokens when it served them. */
  readonly #changes: number;
  /** Whether another program appended while it started: it may know of that, or not. */
  readonly #hasMetAppend: boolean;
  readonly #tokenChanges: number;

  private constructor(
    life: Life,
    folder: Folder,
    store: PlantStore,
    registry: TokenRegistry,
    changes: number,
  ) {
    this.life = life;
    this.folder = folder;
    this.store = store;
    this.#log = life.platter.find(folder.logPath);
    this.registry = registry;
    this.#changes = changes;
    this.#hasMetAppend = changes !== folder.changes;
    this.#tokenChanges = folder.tokenChanges;
  }

  /** Whether others have changed the log since this server serves it. */
  get isIntruded(): boolean {
    return this.folder.changes > this.#changes;
  }

  /** The same of the tokens. */
  get hasEditedTokens(): boolean {
    return this.folder.tokenChanges > this.#tokenChanges;
  }

  /** Starts as `serve` does. */
  static async start(life: Life, folder: Folder): Promise<Server> {
    const before = life.judge.view(folder);
    const { changes } = folder;
    life.recovering = { folder, before };
    const store = await PlantStore.open(folder.path, sizesOf(life));
    if (life.isDead) throw new DeadError("a start"); // amid what it ignores
    life.recovering = undefined;
    if (changes === folder.changes) {
      life.judge.judgeServed(folder, before, store.size, life.hasFaults);
    } else {
      folder.places.clear(); // they are those of the log before this start
      life.judge.learnPlaces(folder); // the store may know nothing of what was appended meanwhile
    }
    const registry = await TokenRegistry.open(folder.path).catch(async (error) => {
      await store.close();
      throw error;
    });
    return new Server(life, folder, store, registry, changes);
  }

  async run(commands: readonly Command[]): Promise<void> {
    const clients = new Map<number, Command[]>();
    for (const command of commands) {
      const queue = clients.get(command.client) ?? [];
      clients.set(command.client, queue);
      queue.push(command);
    }
    await Promise.all([...clients.values()].map((queue) => this.#runClient(queue)));
  }

  async #runClient(commands: readonly Command[]): Promise<void> {
    for (const command of commands) {
      await this.life.rest(command.waitMs);
      let outcome = "done";
      try {
        await this.#do(command);
      } catch (error) {
        outcome = this.#judgeError(command, error);
      }
      this.life.note(`${command.number} ${command.act} ${outcome}`);
    }
  }

  /** @throws Violation unless the command may fail like this. */
  #judgeError({ act }: Command, error: unknown): string {
    const { life, folder } = this;
    if (life.isDead) return "dead";
    const { code, message, cause } = life.failureOf(error);
    const isIn = (...acts: Command["act"][]) => acts.includes(act);
    const hasMark = life.judge.bytesOf(`${folder.tokenPath}.checkpoint.unsynced`) !== undefined;
    const hasTokens = /token/.test(act);
    const isExcused: Partial<Record<ErrorCode, boolean>> = {
      // Another client makes one.
      locked: life.isSlow || life.isDisturbed || isIn("backup into"),
      // What is imported was removed, or what a crash left of a token was cut while it was copied.
      io_error:
        (isIn("import folder") && /there is no such file|ENOENT/.test(message)) ||
        (isIn("backup", "backup into") && / bytes, and now has /.test(message)),
      unsynced: hasTokens && hasMark && folder.mayHaveTokenMark,
      overloaded: life.plan.queueBytesMax < 1024 * 1024,
      unknown_cursor: isIn("list"),
      token_exists: isIn("create token"),
      token_unknown: isIn("revoke token"),
      corruption:
        this.isIntruded ||
        folder.hasLost ||
        folder.isRotten ||
        (hasTokens && (folder.hasBadTokens || folder.hasLostTokens || this.hasEditedTokens)),
    };
    if (isExcused[code] === true) return code;
    const isNeedless =
      (code === "store_failed" && !life.hasFailed && !this.isIntruded) ||
      (code === "write_failed" && !life.hasRefused && !life.isBlind && !this.isIntruded);
    const isMet = life.hasFaults || this.isIntruded || (hasTokens && this.hasEditedTokens);
    if (!isNeedless && FAULT_CODES.includes(code) && isMet) return code;
    const why = message + (cause instanceof Error ? `: ${cause.message}` : "");
    throw new Violation(`needless ${code}`, `${act} fails without a fault: ${why}`);
  }

  async #do(command: Command): Promise<void> {
    const { life, folder } = this;
    switch (command.act) {
      case "create": {
        const plants = command.plants.map((choice) => makePlant(life.plan, choice));
        const outcomes = await Promise.allSettled(plants.map((plant) => this.create(plant)));
        for (const each of outcomes) {
          if (each.status === "rejected" && !isCode(each.reason, "conflict")) throw each.reason;
        }
        return;
      }
      case "import":
        return this.#import(command.plants.map((choice) => makePlant(life.plan, choice)));
      case "import folder":
        return this.#importFolder();
      case "get":
        return this.#get(idOf(command.plant));
      case "list":
        return this.#listAfter(command.plant % 3 === 0 ? undefined : idOf(command.plant));
      case "read all":
        return this.readAll();
      case "export":
        return this.#export(exportLines(folder.path));
      case "verify":
        return this.#verify();
      case "backup":
      case "backup into":
        return makeBackup(this, command);
      case "look":
        return lookAtTokens(this);
      case "rest":
        return life.rest(command.ms);
      case "freeze":
        life.rules.count("time: the process is frozen");
        life.isDisturbed = true;
        return life.clock.freeze(command.ms);
      case "set clock":
        life.rules.count("time: the wall clock is set");
        life.isDisturbed = true;
        return life.clock.shiftWall(command.number % 2 === 0 ? command.ms : -command.ms);
      case "start another":
        return this.#startAnother();
      case "intrude":
        return life.edits.intrude(folder, command.how, command.plant);
      default:
        return useTokens(this, command);
    }
  }

  /** Another program removes the lock, and a second process serves the folder beside this one. */
  async #startAnother(): Promise<void> {
    const { life, folder } = this;
    if (this.#other !== undefined) return;
    life.edits.intrude(folder, "remove lock", { number: 0, version: 0 });
    const other = await PlantStore.open(folder.path, sizesOf(life));
    if (life.isDead) return;
    life.rules.count("others: a second process");
    life.judge.learnPlaces(folder);
    this.#other = other;
  }

  /** @throws what the store throws, once that is judged. */
  async create(plant: NewPlant): Promise<CreateOutcome> {
    const { life, folder } = this;
    const isOther = this.#other !== undefined && plant.name.length % 2 === 0;
    const store = isOther ? (this.#other as PlantStore) : this.store;
    const id = String(plant.id);
    const content = plantContent(plant);
    const { changes } = folder;
    folder.plants.send(id, content);
    try {
      const outcome = await store.create(plant);
      if (outcome === "created") folder.places.delete(id); // an older line may be gone
      if (!life.isDead) life.judge.judgeShown(folder, id, content, `a create is ${outcome}`);
      return outcome;
    } catch (error) {
      if (!life.isDead && isCode(error, "conflict")) {
        if (store === this.#other) life.judge.oweLogged(folder, id, "a conflict");
        const owed = folder.plants.contentOf(id);
        // Else it may owe less now.
        const isKnown = !folder.isRefilled && !this.#hasMetAppend && changes === folder.changes;
        if (isKnown && (owed === undefined || owed === content)) {
          throw new Violation("conflict", `a create of ${id} is refused for ${owed}`);
        }
      }
      throw error;
    }
  }

  #service(): PlantService {
    const unused = () => {
      throw new Error("an import only creates");
    };
    return { create: (plant) => this.create(plant), get: unused, list: unused };
  }

  async #import(plants: readonly NewPlant[]): Promise<void> {
    const lines = plants.map(({ id, name, tag }) => {
      const members = [`"id": ${id}`, `"name": ${JSON.stringify(name)}`];
      if (tag !== undefined) members.unshift(`"tag":${JSON.stringify(tag)}`);
      return `{ ${members.join(", ")} }`;
    });
    const text = Buffer.from(["", "no plant", ...lines].join("\r\n"));
    async function* chunks() {
      for (let at = 0; at < text.length; at += 300) yield text.subarray(at, at + 300);
    }
    const report = await importPlants(this.#service(), chunks());
    const { created, replayed, refused } = report;
    if (this.life.isDead || created + replayed + refused === lines.length + 1) return;
    throw new Violation("import", `${lines.length + 1} lines became ${JSON.stringify(report)}`);
  }

  async #importFolder(): Promise<void> {
    const source = newestBackup(this.life);
    if (source === undefined) return;
    const { text } = await openImportFile(source.path);
    await importPlants(this.#service(), text);
  }

  /** Every plant that is owed, by the index and by the list. */
  async readAll(): Promise<void> {
    await this.#list(undefined);
    for (const id of [...this.folder.plants.owed]) await this.#get(BigInt(id));
  }

  async #get(id: bigint): Promise<void> {
    const { life, folder, store } = this;
    const owed = folder.plants.contentOf(String(id));
    const plant = await store.get(id);
    if (life.isDead) return;
    if (plant !== undefined) {
      life.judge.judgeShown(folder, String(id), plantContent(plant), "a get");
    } else if (owed !== undefined && !this.isIntruded) {
      throw new Violation("get", `a get does not find id ${id}`);
    }
  }

  async #listAfter(after: bigint | undefined): Promise<void> {
    const isOwed = this.folder.plants.contentOf(String(after)) !== undefined;
    try {
      await this.#list(after);
    } catch (error) {
      if (!isCode(error, "unknown_cursor") || !isOwed || this.isIntruded) throw error;
      throw new Violation("list", `a list does not know id ${after}`);
    }
  }

  async #list(after: bigint | undefined): Promise<void> {
    const { life, folder, store } = this;
    const owed = [...folder.plants.owed];
    const start = folder.places.get(String(after))?.offset ?? -1;
    const seen = new Set<string>();
    let last = start;
    const isGone = life.platter.find(folder.logPath) !== this.#log;
    for await (const plant of store.list({ after })) {
      if (isGone && !life.isDead) {
        throw new Violation("list", "a list is read from a log that was gone before it began");
      }
      if (life.isDead || this.isIntruded) return; // a list looks at the log only when it begins
      const id = String(plant.id);
      life.judge.judgeShown(folder, id, plantContent(plant), "a list");
      const { offset = -1 } = folder.places.get(id) ?? {};
      if (offset <= last) throw new Violation("list", `a list has id ${id} at ${offset} too late`);
      last = offset;
      seen.add(id);
    }
    if (life.isDead || this.isIntruded) return;
    const missing = owed.find(
      (id) => !seen.has(id) && (folder.places.get(id)?.offset ?? 0) > start,
    );
    if (missing !== undefined) throw new Violation("list", `a list lacks id ${missing}`);
  }

  /** What another process reads beside a server is what that server knows to be durable. */
  async #export(lines: AsyncIterable<Buffer>): Promise<void> {
    const { life, folder } = this;
    const owed = [...folder.plants.owed];
    const chunks: Buffer[] = [];
    for await (const chunk of lines) chunks.push(chunk);
    if (life.isDead || this.isIntruded) return;
    const image = parseImage(Buffer.concat(chunks));
    for (const { id, content } of image.plants) {
      life.judge.judgeShown(folder, id, content, "an export");
    }
    const seen = new Set(image.plants.map(({ id }) => id));
    const missing = owed.find((id) => !seen.has(id));
    if (missing !== undefined) throw new Violation("export", `an export lacks id ${missing}`);
  }

  async #verify(): Promise<void> {
    const { life, folder } = this;
    const report = await verifyLog(folder.path);
    if (life.isDead || this.isIntruded || folder.repeated.size > 0) return;
    if (!isSound(report) || report.tornBytes > 0 || report.mendable > 0) {
      throw new Violation("verify", `verify beside a server: ${JSON.stringify(report)}`);
    }
  }

  async close(): Promise<void> {
    const { life, folder } = this;
    this.registry.close();
    await this.#other?.close();
    await this.store.close();
    const { log, checkpoint } = life.judge.view(folder);
    const isStopped = life.isDead || life.hasFaults || this.isIntruded;
    if (isStopped || log === undefined || checkpoint?.bytes === log.bytes.length) return;
    if (log.bytes.length === 0) return;
    throw new Violation("checkpoint", `a stop leaves a checkpoint of ${checkpoint?.bytes} bytes`);
  }
}

export function sizesOf({ plan }: Life) {
  const { batchBytesMax, queueBytesMax } = plan;
  return { batchBytesMax, queueBytesMax };
}

function isCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof PlantStoreError && error.code === code;
}
