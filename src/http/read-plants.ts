/**
 * Reading back what is stored: one plant, or a page of them.
 *
 * These operations are an addition to the interface, for tokens with the scope
 * `read`. A page is a JSON array, no longer than its limit and, for the sake of
 * memory, about 1 MiB; whether there is more says its `Link` alone. Ids are
 * written digit for digit, as everywhere.
 */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { PlantStoreError } from "../core/errors.ts";
import { encodeNewPlant } from "../core/plant.ts";
import type { PlantService } from "../core/services.ts";
import { LIMIT_DEFAULT, type ListQuery } from "./list-query.ts";
import type { ReadLease } from "./read-lease.ts";
import { emptyReply, okReply, type Reply } from "./reply.ts";
import { trimSpace } from "./request-head.ts";

const PAGE_BYTES_MAX = 1024 * 1024;

/**
 * A plant never changes, so its tag is good for ever; but whether it may be
 * seen is asked again each time, so that a revoked token ends that too.
 */
const KEPT_BY_ITS_READER = "private, no-cache";

/** @throws PlantStoreError `unknown_plant`, and from `PlantService.get`. */
export async function getPlant(
  plants: PlantService,
  id: bigint,
  req: IncomingMessage,
  lease: ReadLease,
): Promise<Reply> {
  const plant = await plants.get(id);
  if (plant === undefined) {
    throw new PlantStoreError("unknown_plant", `id: there is no plant ${id}`);
  }
  const body = encodeNewPlant(plant);
  lease.hold(Buffer.byteLength(body));
  const headers = { ETag: entityTag(body), "Cache-Control": KEPT_BY_ITS_READER };
  return isMatch(req.headers["if-none-match"], headers.ETag)
    ? emptyReply(304, headers)
    : okReply(body, headers);
}

/** Strong: the same bytes, the same tag. */
function entityTag(body: string): string {
  return `"${createHash("sha256").update(body).digest("base64url").slice(0, 22)}"`;
}

/** RFC 9110 section 13.1.2: the weak comparison, in which `W/` does not count. */
function isMatch(ifNoneMatch: string | undefined, tag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (trimSpace(ifNoneMatch) === "*") return true;
  for (const [listed] of ifNoneMatch.matchAll(/"[^"]*"/g)) if (listed === tag) return true;
  return false;
}

/** A page. @throws PlantStoreError `overloaded`, and from `PlantService.list`. */
export async function listPlants(
  plants: PlantService,
  { limit = LIMIT_DEFAULT, after }: ListQuery,
  lease: ReadLease,
): Promise<Reply> {
  const page: string[] = [];
  let last = after;
  let bytes = 0;
  let hasMore = false;
  for await (const plant of plants.list({ after })) {
    hasMore = page.length >= limit || bytes >= PAGE_BYTES_MAX;
    if (hasMore) break;
    const text = encodeNewPlant(plant);
    bytes += Buffer.byteLength(text);
    lease.hold(bytes);
    page.push(text);
    last = plant.id;
  }
  // Relative to the page itself (RFC 3986 section 5.3), so that it is right
  // behind a proxy that serves us under another path.
  const next = `<?limit=${limit}&after=${last}>; rel="next"`;
  return okReply(`[${page.join()}]`, hasMore ? { Link: next } : {});
}
