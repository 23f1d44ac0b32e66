/**
 * Loaded into a measured server with `--import`. On request it makes the server
 * find no subscribers of its request channel, although its log and its metrics
 * subscribe, so that it works as it would without them.
 *
 * The subscribers stay subscribed: if they left and came again, Node would change
 * the class of the channel, and V8 would discard the code that it optimised.
 */
import { channel } from "node:diagnostics_channel";

const requests = channel("plant-store:request");
const WORDS = { "hide listeners": false, "show listeners": true };

process.on("message", (word) => {
  if (word in WORDS) requests.hasSubscribers = WORDS[word];
});
process.channel?.unref();

Object.defineProperty(requests, "hasSubscribers", { value: true, writable: true });
