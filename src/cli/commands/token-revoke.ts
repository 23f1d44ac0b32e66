/** `plant-store token revoke NAME`: in force within 2 s, also on a running server. */
import { revokeToken } from "../../index.ts";
import { defineCommand } from "../command.ts";
import { DATA } from "../options.ts";

export const tokenRevoke = defineCommand({
  name: "token revoke",
  summary: "revoke the live token of this name",
  arguments: [{ placeholder: "NAME" }],
  options: { data: DATA },
  details: "A running server refuses the token within 2 seconds.",
  async run([name = ""], { data = "" }) {
    await revokeToken(data, name);
    return 0;
  },
});
