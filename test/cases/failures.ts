/** What a client gets when the store or the token check fails. The backend `failing` fails by the id and the token. */
import { type Ask, bad, type Case, create, get } from "./case.ts";
import { ORDER } from "./requests.ts";

/** Text that only the operator may see. */
export const SECRET = "/srv/plants/plants.jsonl";

/** What is thrown for an id: the code of a PlantStoreError with its message, or anything else. */
export const THROWN: readonly [id: number, code: string, gets: number, message?: string][] = [
  [500, "TypeError", 50001],
  [510, "string", 50001],
  [511, "undefined", 50001],
  [512, "corruption", 50001, SECRET],
  [513, "io_error", 50001, SECRET],
  [514, "locked", 50001, SECRET],
  [515, "internal", 50001, "of its own"],
  [501, "overloaded", 50301, "later"],
  [502, "write_failed", 50302, "later"],
  [503, "store_failed", 50303, "later"],
  [504, "closed", 50304, "later"],
  [507, "read_failed", 50307, "later"],
  [406, "conflict", 40006, "taken"],
];

const READS = THROWN.filter(([, code]) => !["write_failed", "conflict"].includes(code));

/** The ways to read, of a plant with this id or after it. */
function readsOf(id: number): Ask[] {
  const list = `/plants?after=${id}`;
  return [get(`/plants/${id}`), get(list), get(list, { Accept: "application/x-ndjson" })];
}

/** A create by this token. */
function by(token: string): Ask {
  return create('{"id":1,"name":"x"}', { Authorization: `Bearer ${token}` });
}

export const FAILURES: readonly Case[] = [
  ...THROWN.map(([id, code, gets]) =>
    bad(`a create that fails with ${code} is ${gets}`, gets, create(`{"id":${id},"name":"x"}`)),
  ),
  ...READS.flatMap(([id, code, gets]) =>
    readsOf(id).map((ask) => bad(`a read that fails with ${code} is ${gets}`, gets, ask)),
  ),
  ...["failing", "rejecting"].map((token) =>
    bad(`a token check that is ${token} is 50001`, 50001, by(token)),
  ),
  bad("a token check that cannot read its tokens is 50306", 50306, by("unread")),
];

/** A store that fails changes nothing in the order of the faults before it. */
export const ORDER_OF_FAILURES: readonly Case[] = ORDER.filter(({ gets }) => gets !== 40301);
