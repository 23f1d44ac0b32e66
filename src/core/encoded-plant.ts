/**
 * The very form in which `encodeNewPlant` writes nearly every plant, recognised
 * by a module of WebAssembly, whose text is encoded-plant.wat.
 *
 * Whatever else there is, faults included, is no concern of this file: it is
 * left to core/plant, with which this one agrees on everything it takes (a
 * property test holds them together).
 *
 * It exists for the speed of scans and streams alone: for a line of 64 bytes
 * `PlainPlantFinder` takes four times as long, and `parseNewPlant`, which makes
 * strings, ten times. The copy and the call pay off over many lines, not for a single plant.
 */
import { ENCODED_PLANT_WASM } from "./encoded-plant-wasm.ts";

/** What the module exports, with its memory as it is seen from here. */
interface Recogniser {
  readonly bytes: Uint8Array;
  readonly bytesMax: number;
  /** Of the plant that was found last. */
  readonly id: DataView;
  readonly find: (start: number) => number;
}

/** One for all, made by the first that needs it; null where there can be none. */
let recogniser: Recogniser | null | undefined;
/** How often bytes were laid into its memory: the finder whose bytes lie there has this number. */
let loads = 0;

export class EncodedPlantFinder {
  /** The id as two signed words, the two halves of an int64 in two's complement. */
  idLow = 0;
  idHigh = 0;
  readonly #bytes: Uint8Array;
  #load = -1;

  /** @param bytes UTF-8, which must not change; only what lies in the first MiB is found. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /**
   * Looks for a plant that starts at `start`, an offset in the bytes.
   *
   * @returns the offset behind its closing brace, or -1 when this is none; the
   * fields mean something only after the former.
   */
  find(start: number): number {
    if (recogniser === undefined) recogniser = makeRecogniser();
    if (recogniser === null) return -1;
    if (this.#load !== loads) this.#layBytes(recogniser);
    if (start > recogniser.bytesMax) return -1;
    const end = recogniser.find(start);
    this.idLow = recogniser.id.getInt32(0, true);
    this.idHigh = recogniser.id.getInt32(4, true);
    return end;
  }

  #layBytes({ bytes, bytesMax }: Recogniser): void {
    const laid = this.#bytes.subarray(0, bytesMax);
    bytes.set(laid);
    bytes[laid.length] = 0; // earlier bytes lie behind
    this.#load = ++loads;
  }
}

/** What is used here of a global that the compiler knows in browsers alone. */
declare const WebAssembly: {
  Module: new (bytes: Uint8Array) => object;
  Instance: new (module: object) => { readonly exports: unknown };
};

interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  readonly bytesMax: { readonly value: number };
  readonly idPlace: { readonly value: number };
  readonly find: (start: number) => number;
}

/**
 * Null with `--jitless`, where there is no WebAssembly, and under a limit of addresses, which V8
 * reserves 10 GB of. Every line is left to others then, which takes several times as long.
 */
function makeRecogniser(): Recogniser | null {
  try {
    const module = new WebAssembly.Module(Buffer.from(ENCODED_PLANT_WASM, "base64"));
    const { memory, bytesMax, idPlace, find } = new WebAssembly.Instance(module).exports as Exports;
    return {
      bytes: new Uint8Array(memory.buffer),
      bytesMax: bytesMax.value,
      id: new DataView(memory.buffer, idPlace.value),
      find,
    };
  } catch {
    return null;
  }
}
