/**
 * A request whose body the HTTP parser hands over as it comes, without a
 * stream in between: only in our own server, which may name its class of
 * requests (`http.createServer`, option `IncomingMessage`). With the stream the
 * server makes a tenth fewer creates at 64 connections, and a ninth at 256.
 *
 * It is a stream like any other until a collector is attached, and again when
 * the collector wants no more; so refusals read or drop a rest as usual. In
 * between nothing is buffered and there is nothing to resume.
 */
import { IncomingMessage } from "node:http";
import { type BodyCollector, collectStream } from "./body.ts";
import { NOTED, type Noted } from "./request-message.ts";

export class DirectRequest extends IncomingMessage {
  #collector: BodyCollector | undefined;
  #hasBegun = false;
  /** All of the body went to a collector. */
  #isCollected = false;
  /** Not this file's. */
  [NOTED]: Noted | undefined = undefined;

  /** Feeds a collector; like a stream, where some of the body has come before. */
  collect(collector: BodyCollector): void {
    if (this.#hasBegun || this.destroyed) collectStream(this, collector);
    else this.#collector = collector;
  }

  /** What Node's parser calls with each piece of a body, and with null behind the last. */
  override push(chunk: Buffer | null): boolean {
    this.#hasBegun = true;
    const collector = this.#collector;
    if (collector === undefined) return super.push(chunk);
    if (chunk === null) {
      this.#isCollected = true;
      collector.end();
    } else {
      collector.add(chunk);
      if (collector.isDone) this.#collector = undefined;
    }
    return true;
  }

  /** What Node calls on a request that was answered, to be rid of a body that nobody read. */
  override resume(): this {
    return this.#isCollected ? this : super.resume();
  }

  /** Node holds on to a request until this is so. */
  // @ts-expect-error The types call it a property, and so overlook the accessor that it is.
  override get readableEnded(): boolean {
    // @ts-expect-error The same.
    return this.#isCollected || super.readableEnded;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#collector?.leave();
    super._destroy(error, done);
  }
}
