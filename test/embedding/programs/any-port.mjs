/**
 * Preloaded into a program under test, for the machine is shared: whatever port
 * it asks for it gets a free one of this machine alone, and says which. All
 * else is as the program wants it.
 */
import net from "node:net";

const { listen } = net.Server.prototype;

net.Server.prototype.listen = function (port, ...others) {
  if (typeof port !== "number") return listen.call(this, port, ...others);
  this.once("listening", () => {
    process.stdout.write(`listening on http://127.0.0.1:${this.address().port}\n`);
  });
  return listen.call(this, 0, "127.0.0.1", ...others);
};
