/**
 * Where moments stand on the axis. Work has its true length; long stretches in which everything
 * waits, for example for a person, are cut short and marked, or a night would leave no room.
 */
import { duration } from "../../lib/time";
import type { Row } from "./tree";

/** From, to: seconds since 1970; no end while it goes on. */
export type Stretch = [number, number | null];

export interface Break {
  at: number;
  width: number;
  label: string;
}

export interface Axis {
  /** Between 0 and 1. */
  place: (time: number) => number;
  ticks: { at: number; label: string }[];
  breaks: Break[];
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
  for (const [from, to] of work) {
    if (from > until) gaps.push([until, from]);
    until = Math.max(until, to ?? end);
  }
  if (end > until) gaps.push([until, end]);
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
  const rest = Math.max(end - start - long(cut), 1e-6);
  const share = cut.length ? Math.min(0.05, 0.4 / cut.length) : 0;
  const scale = (1 - share * cut.length) / rest;
  const pieces: Piece[] = [];
  let at = 0;
  const add = (from: number, to: number, width: number, isBreak: boolean): void => {
    if (to > from) pieces.push({ from, to, at, width, isBreak });
    at += to > from ? width : 0;
  };
  let until = start;
  for (const [from, to] of cut) {
    add(until, from, (from - until) * scale, false);
    add(from, to, share, true);
    until = to;
  }
  add(until, end, (end - until) * scale, false);
  return pieces;
}

function placeIn(pieces: Piece[], time: number): number {
  let low = 0;
  let high = pieces.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pieces[middle]!.from <= time) low = middle;
    else high = middle - 1;
  }
  const piece = pieces[low];
  if (!piece) return 0;
  const share = (time - piece.from) / (piece.to - piece.from);
  return piece.at + piece.width * Math.min(1, Math.max(0, share));
}

function niceStep(least: number): number {
  const size = 10 ** Math.floor(Math.log10(least));
  if (least < 60) return size * ([1, 2, 5].find((each) => each * size >= least) ?? 10);
  return [60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400].find((each) => each >= least) ?? Math.ceil(least / 86400) * 86400;
}

const clock = (time: number): string => new Date(time * 1000).toTimeString().slice(0, 8);

/** After each break the clock is told, then the time since. `room` is what a label needs. */
function ticksOf(pieces: Piece[], room: number): Axis["ticks"] {
  const ticks: Axis["ticks"] = [];
  let free = 0;
  const add = (at: number, label: string): void => {
    if (at < free || at > 1 - room / 2) return;
    ticks.push({ at, label });
    free = at + room;
  };
  for (const { from, to, at, width, isBreak } of pieces) {
    if (isBreak) continue;
    add(at, clock(from));
    const perSecond = width / (to - from);
    const step = niceStep(room / perSecond);
    for (let n = 1; n * step < to - from && n < 100; n++) add(at + n * step * perSecond, `+${duration(n * step * 1000)}`);
  }
  return ticks;
}

export function axisOf(work: Stretch[], start: number, end: number, room: number): Axis {
  const pieces = piecesOf(work, start, Math.max(end, start + 1e-6));
  return {
    place: (time) => placeIn(pieces, time),
    ticks: ticksOf(pieces, room),
    breaks: pieces
      .filter((piece) => piece.isBreak)
      .map(({ at, width, from, to }) => ({ at, width, label: duration((to - from) * 1000) })),
  };
}
