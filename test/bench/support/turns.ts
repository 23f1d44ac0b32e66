/**
 * What something costs creates, told by one server under one load: it goes on
 * for a turn of a fraction of a second and then for as long does not. Two
 * processes of one program differ by a third at times, and a machine from one
 * second to the next: neither falls between two turns.
 *
 * How many creates there were is told by the bytes the log grew by, so all of
 * them are of one length.
 */
import fs from "node:fs";
import { setTimeout } from "node:timers/promises";
import { median } from "./numbers.ts";
import { type Ongoing, untilStopped } from "./until-stopped.ts";

/** How long turns are, in milliseconds. */
export interface TurnTimes {
  readonly turn: number;
  /** At the beginning of a turn, until what was before it has passed. */
  readonly passing: number;
}

/** What most things need to come and go. */
export const TURN_TIMES: TurnTimes = { turn: 250, passing: 50 };
/** Until all connections are accepted: whoever comes meanwhile waits behind them. */
const ACCEPTING_MS = 2000;
/** Of a run of creates, in seconds: what leaves some turns that count. */
export const TURNS_SECONDS_MIN = 4;

export interface Switch {
  on(): void;
  off(): void;
}

/** Begins turns, without it and with it; tells in the end what creates had left of their rate. */
export function takeTurns(
  log: string,
  { on, off }: Switch,
  times: TurnTimes = TURN_TIMES,
): Ongoing<number> {
  return untilStopped(async (isOver) => {
    const rates: number[] = [];
    off(); // what the turns before ended with is luck
    await setTimeout(ACCEPTING_MS);
    for (let isOn = false; !isOver(); isOn = !isOn) {
      if (isOn) on();
      else off();
      rates.push(await measureTurn(log, times));
    }
    return shareOf(rates);
  });
}

/** Bytes a millisecond. */
async function measureTurn(log: string, { turn, passing }: TurnTimes): Promise<number> {
  await setTimeout(passing);
  const { size } = fs.statSync(log);
  const start = performance.now();
  await setTimeout(turn - passing);
  return (fs.statSync(log).size - size) / (performance.now() - start);
}

/** Each turn with it is compared with the two beside it without. */
function shareOf(rates: readonly number[]): number {
  const shares: number[] = [];
  // The load may have ended within the last one.
  for (let turn = 1; turn + 2 < rates.length; turn += 2) {
    const [before = 0, within = 0, behind = 0] = rates.slice(turn - 1, turn + 2);
    shares.push((2 * within) / (before + behind));
  }
  return median(shares);
}
