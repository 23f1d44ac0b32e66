/** A program of a user, to be compiled: every part of the library, and every type by its name. */
import { createServer, type RequestListener } from "node:http";
import { BlockList } from "node:net";
import {
  type BackupReport,
  type BatchMessage,
  backup,
  type CreateOutcome,
  createFirstToken,
  createRequestListener,
  createToken,
  type ErrorCode,
  encodeNewPlant,
  exportLines,
  type ImportReport,
  importPlants,
  isLive,
  type LeftOutLine,
  type ListenerOptions,
  listTokens,
  type NewPlant,
  type NewToken,
  NUMBER_OPTIONS,
  type Plant,
  PlantServer,
  type PlantService,
  PlantStore,
  PlantStoreError,
  type PlantStoreOptions,
  type RepairReport,
  type RequestMessage,
  repairLog,
  revokeToken,
  type Scope,
  type ServerOptions,
  subscribe,
  type TokenRecord,
  TokenRegistry,
  type TokenVerifier,
  type TrustedProxies,
  type Verdict,
  type VerifiedToken,
  type VerifyReport,
  verifyLog,
  type WarningMessage,
} from "plant-store";

class Shed implements PlantService {
  readonly #plants = new Map<bigint, NewPlant>();

  async create(plant: NewPlant): Promise<CreateOutcome> {
    if (this.#plants.has(plant.id)) throw new PlantStoreError("conflict", "taken");
    this.#plants.set(plant.id, plant);
    return "created";
  }

  async getLine(id: bigint): Promise<Uint8Array | undefined> {
    const plant = this.#plants.get(id);
    return plant && new TextEncoder().encode(encodeNewPlant(plant));
  }

  async *listLines(): AsyncIterable<Uint8Array> {
    for (const plant of this.#plants.values()) {
      yield new TextEncoder().encode(`${encodeNewPlant(plant)}\n`);
    }
  }
}

const atOnce: TokenVerifier = { verify: (token) => (token === "x" ? member() : null) };
const later: TokenVerifier = { verify: async (token) => (token === "x" ? member() : undefined) };

function member(): VerifiedToken {
  const scopes: readonly Scope[] = ["write", "read"];
  return { name: "member", scopes };
}

export async function main(data: string): Promise<void> {
  const storeOptions: PlantStoreOptions = { queueBytesMax: NUMBER_OPTIONS.queueBytesMax.max };
  const store = await PlantStore.open(data, storeOptions);
  const outcome: CreateOutcome = await store.create({ id: BigInt(7), name: "Fern" });
  const plant: NewPlant | undefined = await store.get(BigInt(7));
  for await (const { id, name, tag } of store.list()) {
    const both: [bigint, string, string | undefined] = [id, name, tag];
    void both;
  }
  const token: string = await createToken(data, { name: "a" } satisfies NewToken);
  const tokens = await TokenRegistry.open(data);
  const trustedProxies: TrustedProxies = new BlockList();
  const options: ListenerOptions = { plants: store, tokens, basePath: "/a/", trustedProxies };
  const unsubscribe: () => void = subscribe("plant-store:request", ({ client, status }) => {
    void [client satisfies string | undefined, status satisfies number];
  });
  unsubscribe();
  // @ts-expect-error there is no such channel
  subscribe("plant-store:colour", () => {});
  const listener: RequestListener = createRequestListener(options);
  createServer(listener);
  createRequestListener({ plants: new Shed(), tokens: atOnce });
  createRequestListener({ plants: new Shed(), tokens: later });
  const serverOptions: ServerOptions = { ...options, host: "::1", port: 0 };
  const server = await PlantServer.start(serverOptions);
  const url: string = server.url;
  await server.close(0);
  tokens.close();
  const why: PlantStoreError = await store.failed;
  const code: ErrorCode = why.code;
  await store.close();
  void [outcome, plant, token, url, code];
}

export async function care(data: string): Promise<void> {
  const report: VerifyReport = await verifyLog(data);
  const onLeftOut = ({ line }: LeftOutLine) => void (line satisfies number);
  const done: RepairReport = await repairLog(data, onLeftOut);
  const copy: BackupReport = await backup(data, `${data}.copy`);
  const taken: ImportReport = await importPlants(new Shed(), exportLines(data));
  const live: readonly TokenRecord[] = (await listTokens(data)).filter((one) => isLive(one, 0));
  const first: string | undefined = await createFirstToken(data, { name: "a" });
  await revokeToken(data, "a");
  void [report, done, copy, taken, live, first];
}

/** Each of these is a mistake, which the compiler must find. */
export async function mistakes(store: PlantStore): Promise<void> {
  // @ts-expect-error a number cannot hold every id
  await store.create({ id: 7, name: "Fern" });
  // @ts-expect-error there is no such code
  const code: ErrorCode = "lost";
  // @ts-expect-error a plant is never changed
  (({ name: "a" }) as Plant).name = "b";
  // @ts-expect-error there is no such option
  void [code, NUMBER_OPTIONS.colour];
}

export type Messages = WarningMessage | RequestMessage | BatchMessage;
export type Others = Verdict;
