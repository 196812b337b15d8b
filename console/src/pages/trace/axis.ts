/**
 * Where moments stand on the axis. Work has its true length; long stretches in which everything
 * waits, for example for a person, are cut short and marked, or a night would leave no room.
 */
import { duration } from "../../lib/time";
import type { Row } from "./tree";

/** From, to: seconds since 1970; no end while it goes on. */
export type Stretch = [number, number | null];

export interface Mark {
  /** Between 0 and 1. */
  at: number;
  width: number;
  label: string;
}

export interface Axis {
  place: (time: number) => number;
  ticks: Mark[];
  breaks: Mark[];
}

const WORK = new Set(["llm_call", "tool_call", "route", "guardrail"]);

/** When somebody worked: calls and checks, and what an agent did by itself between them. */
export function workOf(rows: Row[]): Stretch[] {
  const work: Stretch[] = [];
  const busyUntil = new Map<Row, number>();
  for (const row of rows) {
    const { kind, started_at: from, ended_at: to } = row.span;
    if (WORK.has(kind)) work.push([from, to]);
    if (kind === "agent") busyUntil.set(row, from);
    const before = row.parent ? busyUntil.get(row.parent) : undefined;
    if (before === undefined || !row.parent) continue;
    if (from > before) work.push([before, from]);
    busyUntil.set(row.parent, Math.max(before, to ?? Infinity));
  }
  for (const [row, until] of busyUntil) {
    const end = row.span.ended_at;
    if (end === null ? row.state === "running" && until < Infinity : end > until) work.push([until, end]);
  }
  return work.sort((a, b) => a[0] - b[0]);
}

function gapsIn(work: Stretch[], start: number, end: number): [number, number][] {
  const gaps: [number, number][] = [];
  let until = start;
  for (const [from, to] of [...work, [end, end]] as Stretch[]) {
    if (from > until) gaps.push([until, from]);
    until = Math.max(until, to ?? end);
  }
  return gaps;
}

const SHORTEST_GAP_S = 0.5;
const SHARE_OF_WORK = 0.25;

interface Piece {
  from: number;
  to: number;
  at: number;
  width: number;
  isBreak: boolean;
}

function piecesOf(work: Stretch[], start: number, end: number): Piece[] {
  const gaps = gapsIn(work, start, end);
  const long = (list: [number, number][]): number => list.reduce((sum, [from, to]) => sum + to - from, 0);
  const worked = end - start - long(gaps);
  const cut = gaps.filter(([from, to]) => to - from > Math.max(SHORTEST_GAP_S, worked * SHARE_OF_WORK));
  const share = Math.min(0.05, 0.4 / cut.length);
  const scale = (1 - share * cut.length) / Math.max(end - start - long(cut), 1e-6);
  const pieces: Piece[] = [];
  let [at, until] = [0, start];
  const add = (to: number, isBreak: boolean): void => {
    const width = isBreak ? share : (to - until) * scale;
    if (to > until) pieces.push({ from: until, to, at, width, isBreak });
    [at, until] = [at + width, to];
  };
  for (const [from, to] of cut) {
    add(from, false);
    add(to, true);
  }
  add(end, false);
  return pieces;
}

const clock = (time: number): string => new Date(time * 1000).toTimeString().slice(0, 8);

const TICK = 0.25;

export function axisOf(work: Stretch[], start: number, given: number): Axis {
  const end = Math.max(given, start + 1e-6);
  const pieces = piecesOf(work, start, end);
  const breaks = pieces.filter((piece) => piece.isBreak);
  const whole = pieces.filter((piece) => !piece.isBreak);
  /** The first tells when it began, the others how long it went on by then, without the breaks. */
  const tick = (at: number): Mark => {
    const seconds = whole.reduce((sum, { from, to, ...piece }) => sum + (to - from) * Math.min(1, Math.max(0, (at - piece.at) / piece.width)), 0);
    return { at, width: TICK, label: at ? `+${duration(seconds * 1000)}` : clock(start) };
  };
  return {
    place: (time) => {
      const piece = pieces.findLast((each) => each.from <= time) ?? pieces[0]!;
      const share = (time - piece.from) / (piece.to - piece.from);
      return piece.at + piece.width * Math.min(1, Math.max(0, share));
    },
    ticks: [0, TICK, 2 * TICK, 3 * TICK].map(tick),
    breaks: breaks.map(({ at, width, from, to }) => ({ at, width, label: duration((to - from) * 1000) })),
  };
}
