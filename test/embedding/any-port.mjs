/**
 * Preloaded into a program under test, because the machine is shared: the program gets a free port on
 * 127.0.0.1, no matter which port it asks for, and prints it. Nothing else is changed.
 */
import net from "node:net";

const { listen } = net.Server.prototype;

net.Server.prototype.listen = function (wanted, ...others) {
  const isAddress = typeof wanted?.port === "number";
  if (typeof wanted !== "number" && !isAddress) return listen.call(this, wanted, ...others);
  this.once("listening", () => {
    process.stdout.write(`listening on http://127.0.0.1:${this.address().port}\n`);
  });
  if (isAddress) return listen.call(this, { ...wanted, port: 0, host: "127.0.0.1" }, ...others);
  const callbacks = others.filter((each) => typeof each === "function");
  return listen.call(this, 0, "127.0.0.1", ...callbacks);
};
