/**
 * Loaded into a measured server with `--import`: whenever it is told so, the
 * server finds that nobody listens to its requests, though its log and its
 * metrics do. It serves them then as it does where nobody listens.
 *
 * Nobody leaves and comes again, for which Node changes the kind of the object:
 * what V8 has made of the code around it would go each time.
 */
import { channel } from "node:diagnostics_channel";

const requests = channel("plant-store:request");
const WORDS = { "hide listeners": false, "show listeners": true };

process.on("message", (word) => {
  if (word in WORDS) requests.hasSubscribers = WORDS[word];
});
process.channel?.unref();

Object.defineProperty(requests, "hasSubscribers", { value: true, writable: true });
