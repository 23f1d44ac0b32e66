/**
 * One open connection of our own server: the exchange that began last on it,
 * and how long it may stand still.
 *
 * Node sets, refreshes and ends a timer with every request where it is told of such times, which
 * takes 3 to 6 % of creates (64 to 1,024 connections; test/bench/results). So it is not told, and a
 * connection gets a timer, Node's own, when nothing began or ended on it between two looks. Who
 * looks is http/connections.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** In milliseconds. */
export interface StandstillTimes {
  /** Between an answer and the next request. */
  readonly idleMs: number;
  /** While an answer is due, or before the first request. */
  readonly stallMs: number;
}

/** Node's own margin: who comes within what the answer told does not meet the close. */
const IDLE_MARGIN_MS = 1000;

/** Node's, without a word in its documentation: what the answer tells of `idleMs`. */
interface KeepAliveTold {
  _keepAliveTimeout: number;
}

export class Connection {
  /** Requests whose answers are not sent yet. */
  unanswered = 0;
  req?: IncomingMessage;
  res?: ServerResponse;
  /** The parser gave up; it reports the same fault again for whatever still comes. */
  isBroken = false;
  readonly #socket: Socket;
  readonly #times: StandstillTimes;
  /** Something began or ended since the last look. */
  #isActive = true;
  #isTimed = false;
  /** What had been read when a drain looked last. */
  #drainedBytes: number | undefined;

  constructor(socket: Socket, times: StandstillTimes) {
    this.#socket = socket;
    this.#times = times;
    socket.on("timeout", () => socket.destroy()); // Node does, but not behind CONNECT
  }

  /** A request came, before which everything that came was to be carried out. */
  begin(req: IncomingMessage, res: ServerResponse): void {
    this.req = req;
    this.res = res;
    this.unanswered++;
    (res as unknown as KeepAliveTold)._keepAliveTimeout = this.#times.idleMs;
    res.on("close", this.#noteAnswered);
    this.#noteActivity();
  }

  readonly #noteAnswered = () => {
    this.unanswered--;
    this.#noteActivity();
  };

  /** Has Node watch a connection on which nothing began or ended since the last look. */
  look(): void {
    if (this.#isTimed) return;
    if (this.#isActive) {
      this.#isActive = false;
      return;
    }
    const isIdle = this.req !== undefined && this.unanswered === 0;
    this.#isTimed = true;
    const { idleMs, stallMs } = this.#times;
    this.#socket.setTimeout(isIdle ? idleMs + IDLE_MARGIN_MS : stallMs);
  }

  /**
   * Closes a connection that owes no answer and read nothing since the last call: half a request
   * head is no request. A connection that closes already is left to send what it has.
   *
   * @param isLate whether it is closed though it read something.
   */
  closeIfQuiet(isLate: boolean): void {
    const { bytesRead, writableEnded } = this.#socket;
    const isQuiet = this.#drainedBytes === bytesRead;
    this.#drainedBytes = bytesRead;
    if ((isQuiet || isLate) && this.unanswered === 0 && !writableEnded) this.#socket.destroy();
  }

  #noteActivity(): void {
    this.#isActive = true;
    if (!this.#isTimed) return;
    this.#isTimed = false;
    this.#socket.setTimeout(0);
  }
}
