/**
 * A program of a user with generated types and their client. It is compiled strictly against
 * `schema.d.ts`, which a test generates from the document, and run against a real server. Prints the
 * answers as JSON.
 */
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.d.ts";

const [, , baseUrl = "", token = ""] = process.argv;
const client = createClient<paths>({
  baseUrl,
  headers: { Authorization: `Bearer ${token}` },
});

const fern: components["schemas"]["NewPlant"] = { id: 7, name: "Fern", tag: "indoor" };
const created = await client.POST("/plants", { body: fern });
const name: string | undefined = created.data?.name;

const taken = await client.POST("/plants", { body: { id: 7, name: "Ivy" } });
const number: number | undefined = taken.error?.error;

const got = await client.GET("/plants/{id}", { params: { path: { id: 7 } } });
const missing = await client.GET("/plants/{id}", { params: { path: { id: 8 } } });
const page = await client.GET("/plants", {
  params: { query: { limit: 1 } },
  headers: { Accept: "application/json" },
});

// @ts-expect-error A plant has a name.
const unnamed = await client.POST("/plants", { body: { id: 9 } });

const result = {
  name,
  number,
  got: got.data,
  missing: missing.error?.error,
  page: page.data,
  unnamed: unnamed.error?.error,
};
process.stdout.write(JSON.stringify(result));
