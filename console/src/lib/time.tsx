/** Times as people say them, and exactly. */
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { currentLanguage } from "./words";

const watchers = new Set<() => void>();
let ticking = 0;

/** Draw anew as time goes by: once a second for all. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const tick = (): void => setNow(Date.now() / 1000);
    watchers.add(tick);
    ticking ||= window.setInterval(() => watchers.forEach((each) => each()), 1000);
    return () => {
      watchers.delete(tick);
      if (watchers.size) return;
      window.clearInterval(ticking);
      ticking = 0;
    };
  }, []);
  return now;
}

const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/** `3 minutes ago`, `in 2 hours`. */
export function relative(at: number, now: number): string {
  const seconds = Math.round(at - now);
  const [unit, size] = UNITS.find(([, each]) => Math.abs(seconds) >= each) ?? ["second", 1];
  const words = new Intl.RelativeTimeFormat(currentLanguage(), { numeric: "auto", style: "short" });
  return words.format(Math.trunc(seconds / size), unit);
}

/** `2026-11-16 09:30:15`, as the clock here shows it. */
export function exact(at: number): string {
  const date = new Date(at * 1000);
  if (Number.isNaN(date.getTime())) return "?";
  const two = (value: number, length = 2): string => String(value).padStart(length, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** A moment: how long ago, and when exactly. */
export function Moment({ at }: { at: number }): VNode {
  const now = useNow();
  const date = new Date(at * 1000);
  const machine = Number.isNaN(date.getTime()) ? "" : date.toISOString();
  return (
    <time dateTime={machine} title={exact(at)}>
      {relative(at, now)}
    </time>
  );
}

/** `850 ms`, `3.2 s`, `4 min 10 s`. */
export function duration(ms: number): string {
  if (ms < 1) return `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
