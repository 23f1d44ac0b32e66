/** Makes a screenshot small: a PNG with a palette of at most 64 colours, which a page of few colours needs. */
import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE_BYTES = 8;
const COLOURS_MAX = 64;

/** @param png of 8 bits a channel and not interlaced, as Chromium makes it. */
export function reduceColours(png: Buffer): Buffer {
  const { header, data } = readChunks(png);
  const width = header.readUInt32BE(0);
  const channels = header[9] === 6 ? 4 : 3;
  const pixels = unfilter(inflateSync(data), width * channels, channels);
  const colours = Array.from({ length: pixels.length / channels }, (_, at) => {
    return pixels.readUIntBE(at * channels, 3);
  });
  const palette = mostFrequent(colours);
  const nearest = new Map<number, number>();
  const rows = Buffer.alloc((width + 1) * header.readUInt32BE(4));
  for (const [at, colour] of colours.entries()) {
    const index = nearest.get(colour) ?? findNearest(palette, colour);
    nearest.set(colour, index);
    rows[at + Math.floor(at / width) + 1] = index; // each row begins with its filter, 0
  }
  header[9] = 3;
  return Buffer.concat([
    png.subarray(0, SIGNATURE_BYTES),
    chunk("IHDR", header),
    chunk("PLTE", Buffer.from(palette.flatMap(split))),
    chunk("IDAT", deflateSync(rows, { level: 9 })),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

function readChunks(png: Buffer): { header: Buffer; data: Buffer } {
  const parts: Buffer[] = [];
  let header = Buffer.alloc(0);
  for (let at = SIGNATURE_BYTES; at < png.length; ) {
    const end = at + 8 + png.readUInt32BE(at);
    const name = png.toString("latin1", at + 4, at + 8);
    if (name === "IHDR") header = Buffer.from(png.subarray(at + 8, end));
    if (name === "IDAT") parts.push(png.subarray(at + 8, end));
    at = end + 4;
  }
  return { header, data: Buffer.concat(parts) };
}

/** Undoes the filters of RFC 2083, section 6. */
function unfilter(bytes: Buffer, rowBytes: number, channels: number): Buffer {
  const pixels = Buffer.alloc((bytes.length / (rowBytes + 1)) * rowBytes);
  for (let at = 0; at < pixels.length; at++) {
    const row = Math.floor(at / rowBytes);
    const isFirst = at % rowBytes < channels;
    const left = isFirst ? 0 : (pixels[at - channels] ?? 0);
    const above = pixels[at - rowBytes] ?? 0;
    const corner = isFirst ? 0 : (pixels[at - rowBytes - channels] ?? 0);
    const guesses = [0, left, above, (left + above) >> 1, paeth(left, above, corner)];
    const guess = guesses[bytes[row * (rowBytes + 1)] ?? 0] ?? 0;
    pixels[at] = (bytes[at + row + 1] ?? 0) + guess;
  }
  return pixels;
}

function paeth(left: number, above: number, corner: number): number {
  const [a, b, c] = [above - corner, left - corner, left + above - 2 * corner].map(Math.abs);
  if (a === undefined || b === undefined || c === undefined) return 0;
  if (a <= b && a <= c) return left;
  return b <= c ? above : corner;
}

function mostFrequent(colours: readonly number[]): number[] {
  const counts = new Map<number, number>();
  for (const colour of colours) counts.set(colour, (counts.get(colour) ?? 0) + 1);
  const sorted = [...counts].sort(([, a], [, b]) => b - a);
  return sorted.slice(0, COLOURS_MAX).map(([colour]) => colour);
}

function findNearest(palette: readonly number[], colour: number): number {
  const distances = palette.map((other) => {
    const [r = 0, g = 0, b = 0] = split(other).map((part, at) => part - (split(colour)[at] ?? 0));
    return r * r + g * g + b * b;
  });
  return distances.indexOf(Math.min(...distances));
}

function split(colour: number): number[] {
  return [colour >> 16, (colour >> 8) & 0xff, colour & 0xff];
}

function chunk(name: string, data: Buffer): Buffer {
  const body = Buffer.concat([Buffer.from(name), data]);
  const bytes = Buffer.alloc(body.length + 8);
  bytes.writeUInt32BE(data.length);
  body.copy(bytes, 4);
  bytes.writeUInt32BE(crc32(body), body.length + 4);
  return bytes;
}
