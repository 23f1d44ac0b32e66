/** `plant-store token create NAME`: prints the token alone; nobody can show it again. */
import { isTokenName, SCOPES, type Scope } from "../../core/services.ts";
import { createToken } from "../../index.ts";
import { defineCommand, UsageError } from "../command.ts";
import { DATA, parseExpiry } from "../options.ts";
import { printLines } from "../output.ts";

export const tokenCreate = defineCommand({
  name: "token create",
  summary: "create a bearer token and print it, this once",
  arguments: [{ placeholder: "NAME" }],
  options: {
    data: DATA,
    expires: {
      placeholder: "TIME",
      help: "when it expires, such as 90d or 2030-01-31; never without",
      parse: parseExpiry,
    },
    scope: {
      placeholder: "SCOPE",
      values: SCOPES,
      help: `what it may do, ${SCOPES.join(" or ")}; may be given twice`,
      defaultText: "write",
      isRepeatable: true,
      parse: parseScopes,
    },
  },
  details: "A running server accepts the token within 2 seconds.",
  async run([name = ""], { data = "", expires, scope }) {
    if (!isTokenName(name)) {
      throw new UsageError(
        `token create: expected a NAME of 1 to 64 letters, digits and ._@-, got "${name}"`,
      );
    }
    const token = await createToken(data, {
      name,
      ...(scope === undefined ? {} : { scopes: scope }),
      ...(expires === undefined ? {} : { expiresAt: expires }),
    });
    await printLines([token]);
    return 0;
  },
});

function parseScopes(text: string): readonly Scope[] {
  const wanted = text.split(",");
  const scopes = SCOPES.filter((scope) => wanted.includes(scope));
  if (wanted.every((word) => SCOPES.some((scope) => scope === word))) return scopes;
  throw new UsageError(`expected ${SCOPES.join(" or ")}`);
}
