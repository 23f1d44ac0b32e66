/**
 * A plant as a record of the log, and back.
 *
 * The same rules judge a record as judge a request (core/plant); what differs
 * is the answer: a record that breaks them is damage, named by path, line and
 * byte, and never repaired in silence.
 */
import { type CreateMessage, creates } from "../core/channels.ts";
import { PlantStoreError } from "../core/errors.ts";
import { Gate } from "../core/gate.ts";
import { encodeNewPlant, type NewPlant, parseNewPlant } from "../core/plant.ts";
import type { LogFile } from "../log/file.ts";
import { type LinePlace, lineError, readLineAt } from "../log/reader.ts";

/** @throws PlantStoreError `corruption` when the record is not a plant. */
export function decodeRecord(record: Buffer, path: string, place: LinePlace): NewPlant {
  try {
    return parseNewPlant(record);
  } catch (cause) {
    if (!(cause instanceof PlantStoreError)) throw cause;
    throw lineError(path, place, cause.message, cause);
  }
}

/**
 * Plants that are read at once: a short create of a taken id may have a long one read, and thousands
 * of them would hold as many. Node's four threads, which the log's writes need, too, are those of
 * the process: so is the gate.
 */
const reads = new Gate(8);

/**
 * The plant whose record starts at `offset`, in a log whose whole lines end at `end`, when it is
 * its turn.
 */
export function readPlantAt(file: LogFile, offset: number, end: number): Promise<NewPlant> {
  return reads.pass(async () => parseNewPlant(await readLineAt(file, offset, end)));
}

/** Tells who listens that a new plant is durable. */
export function publishCreate(log: string, plant: NewPlant, offset: number): void {
  const { id, name, tag } = plant;
  const bytes = Buffer.byteLength(encodeNewPlant(plant)) + 1; // and its line feed
  creates.publish({ log, id, name, tag, offset, bytes } satisfies CreateMessage);
}

/** Whether these bytes are a whole record. */
export function isRecord(bytes: Buffer): boolean {
  try {
    parseNewPlant(bytes);
    return true;
  } catch {
    return false;
  }
}
