/** A program of a user, to be compiled: what the library exports, and what the compiler must refuse. */
import { createServer, type RequestListener } from "node:http";
import { BlockList } from "node:net";
import * as store from "plant-store";

class Shed implements store.PlantService {
  readonly #plants = new Map<bigint, store.NewPlant>();

  async create(plant: store.NewPlant): Promise<store.CreateOutcome> {
    if (this.#plants.has(plant.id)) throw new store.PlantStoreError("conflict", "taken");
    this.#plants.set(plant.id, plant);
    return "created";
  }

  async getLine(id: bigint): Promise<Uint8Array | undefined> {
    const plant = this.#plants.get(id);
    return plant && new TextEncoder().encode(store.encodeNewPlant(plant));
  }

  async *listLines(_?: store.ListOptions): AsyncIterable<Uint8Array> {
    for (const plant of this.#plants.values()) {
      yield new TextEncoder().encode(`${store.encodeNewPlant(plant)}\n`);
    }
  }
}

const member: store.VerifiedToken = { name: "member", scopes: ["write", "read"] };
const atOnce: store.TokenVerifier = { verify: (token) => (token === "x" ? member : null) };
const later: store.TokenVerifier = {
  verify: async (token) => (token === "x" ? member : undefined),
};

export async function main(data: string): Promise<void> {
  const queueBytesMax = store.NUMBER_OPTIONS.queueBytesMax.max;
  const plants = await store.PlantStore.open(data, { queueBytesMax });
  const plant: store.NewPlant | undefined = await plants.get(BigInt(7));
  for await (const { id, name, tag } of plants.list()) {
    void ([id, name, tag] satisfies [bigint, string, string | undefined]);
  }
  const tokens = await store.TokenRegistry.open(data);
  const trustedProxies: store.TrustedProxies = new BlockList();
  const options: store.ListenerOptions = { plants, tokens, basePath: "/a/", trustedProxies };
  const unsubscribe: () => void = store.subscribe("plant-store:request", ({ client, status }) => {
    void [client satisfies string | undefined, status satisfies number];
  });
  const listener: RequestListener = store.createRequestListener(options);
  createServer(listener);
  store.createRequestListener({ plants: new Shed(), tokens: atOnce });
  store.createRequestListener({ plants: new Shed(), tokens: later });
  const server = await store.PlantServer.start({ ...options, host: "::1", port: 0 });
  await server.close(0);
  const why: store.PlantStoreError = await plants.failed;
  const code: store.ErrorCode = why.code;
  void [plant, code, unsubscribe, server.url satisfies string];
}

export async function care(data: string): Promise<void> {
  const report: store.VerifyReport = await store.verifyLog(data);
  const done: store.RepairReport = await store.repairLog(data, ({ line }) => void line.toFixed());
  const copy: store.BackupReport = await store.backup(data, `${data}.copy`);
  const lines = store.exportLines(data);
  const taken: store.ImportReport = await store.importPlants(new Shed(), lines);
  const token: string = await store.createToken(data, { name: "a" } satisfies store.NewToken);
  const records: readonly store.TokenRecord[] = await store.listTokens(data);
  void [report, done, copy, taken, token, records.filter((one) => store.isLive(one, 0))];
}

/** Each of these is a mistake, which the compiler must find. */
export async function mistakes(plants: store.PlantStore): Promise<void> {
  // @ts-expect-error a number cannot hold every id
  await plants.create({ id: 7, name: "Fern" });
  // @ts-expect-error there is no such code
  const code: store.ErrorCode = "lost";
  // @ts-expect-error a plant is never changed
  (({ name: "a" }) as store.Plant).name = "b";
  // @ts-expect-error there is no such channel
  store.subscribe("plant-store:colour", () => {});
  // @ts-expect-error there is no such option
  void [code, store.NUMBER_OPTIONS.colour];
}
