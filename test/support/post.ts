/** A create sent to a server in a process of its own. */
import { type Answer, send } from "./service.ts";

export function postPlant(url: string, token: string, body: string): Promise<Answer> {
  return send(`${url}/plants`, {
    method: "POST",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    body,
  });
}
