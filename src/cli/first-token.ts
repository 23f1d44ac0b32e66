/** What a newcomer needs next: a token, made only once the server listens, and how to use it. */
import { createFirstToken, isLive, listTokens, type TokenRegistry } from "../index.ts";
import { count } from "./output.ts";

/**
 * The lines that say so. They hold the token, so they are for standard output:
 * a log is no place for one.
 */
export async function introduce(
  url: string,
  data: string,
  tokens: TokenRegistry,
): Promise<string[]> {
  const token = await createFirstToken(data, { name: "first-token" });
  await tokens.refresh();
  if (token === undefined) {
    const now = Date.now();
    const live = (await listTokens(data)).filter((record) => isLive(record, now)).length;
    const verb = live === 1 ? "exists" : "exist";
    return [`${count(live, "token")} ${verb}; "plant-store token create NAME" makes another`];
  }
  const command =
    `curl -X POST ${quoteForShell(`${url}/plants`)} -H 'Authorization: Bearer ${token}' ` +
    `-H 'Content-Type: application/json' ` +
    `-d '{"id":1,"name":"Monstera deliciosa","tag":"tropical"}'`;
  return ["created a token, shown only now; create a plant with it:", "", `  ${command}`, ""];
}

/** A base path may hold what a shell would take for itself. */
function quoteForShell(text: string): string {
  return /^[A-Za-z0-9:/._~-]*$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
