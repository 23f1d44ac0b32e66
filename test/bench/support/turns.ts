/**
 * The cost of something in creates, measured in one server under one load: it is
 * on for a turn of a fraction of a second and off for the next. Two processes of
 * one program can differ by a third, and a machine from one second to the next;
 * neighbouring turns of one server do not.
 *
 * Creates are counted by the bytes that the log grew by, so all of them have one
 * length.
 */
import fs from "node:fs";
import { setTimeout } from "node:timers/promises";
import { median } from "./numbers.ts";
import { type Ongoing, untilStopped } from "./until-stopped.ts";

/** How long turns are, in milliseconds. */
export interface TurnTimes {
  readonly turn: number;
  /** Ignored at the beginning of a turn, while effects of the last turn pass. */
  readonly passing: number;
}

/** Long enough for most effects to come and go. */
export const TURN_TIMES: TurnTimes = { turn: 250, passing: 50 };
/** The time in which all connections are accepted, and requests wait. */
const ACCEPTING_MS = 2000;
/** The shortest run of creates that has some turns that count. */
export const TURNS_SECONDS_MIN = 4;

export interface Switch {
  on(): void;
  off(): void;
}

/** Alternates turns off and on; the result is the rate of creates during "on" divided by that during "off". */
export function takeTurns(
  log: string,
  { on, off }: Switch,
  times: TurnTimes = TURN_TIMES,
): Ongoing<number> {
  return untilStopped(async (isOver) => {
    const rates: number[] = [];
    off(); // earlier turns may have ended in either state
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

/** Compares each turn "on" with the two turns "off" beside it. */
function shareOf(rates: readonly number[]): number {
  const shares: number[] = [];
  // The load may have ended within the last turn.
  for (let turn = 1; turn + 2 < rates.length; turn += 2) {
    const [before = 0, within = 0, after = 0] = rates.slice(turn - 1, turn + 2);
    if (before + after > 0) shares.push((2 * within) / (before + after)); // else nothing was written in either
  }
  return median(shares);
}
