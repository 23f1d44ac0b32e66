/** Values that several property tests draw from. */
import fc from "fast-check";
import { INT64_MAX, INT64_MIN } from "../../src/core/json.ts";
import type { NewPlant } from "../../src/core/plant.ts";

/** Characters that are easily lost: escapes, line ends, halves of surrogate pairs. */
const TRICKY_UNITS = [
  0x00, 0x08, 0x0a, 0x0d, 0x1f, 0x22, 0x2f, 0x5c, 0x75, 0x7f, 0x80, 0x9f, 0x2028, 0x2029, 0x202e,
  0x2066, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xfeff, 0xfffd, 0xffff,
];

/** Any string of UTF-16 code units, with lone surrogates, which no unit of `fc.string` yields. */
export const anyString: fc.Arbitrary<string> = fc
  .array(fc.oneof(fc.nat(0xffff), fc.nat(0x7f), fc.constantFrom(...TRICKY_UNITS)))
  .map((units) => String.fromCharCode(...units));

export const anyInt64: fc.Arbitrary<bigint> = fc.bigInt({ min: INT64_MIN, max: INT64_MAX });

export const anyPlant: fc.Arbitrary<NewPlant> = fc.record(
  { id: anyInt64, name: anyString, tag: anyString },
  { requiredKeys: ["id", "name"], noNullPrototype: true },
);
