/** The typed text with what made an agent match. */
import type { VNode } from "preact";
import type { RouteModel } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { t } from "../../lib/words";

interface Hit {
  from: number;
  to: number;
  kind: "keyword" | "pattern";
}

const LONGEST = 5000;
const LONGEST_FOR_PATTERNS = 1000;
const LETTER = /[\p{L}\p{N}_]/u;
const LATIN = /^[\u0000-\u024f]+$/;

/** A Latin word is found as a whole word, others anywhere: as the server does it. */
function keywordHits(text: string, keyword: string): Hit[] {
  const lower = text.toLowerCase();
  const where = lower.length === text.length ? lower : text;
  const what = keyword.toLowerCase();
  const hits: Hit[] = [];
  for (let from = where.indexOf(what); from >= 0 && what; from = where.indexOf(what, from + what.length)) {
    const to = from + what.length;
    const isInside = LATIN.test(what) && (LETTER.test(text[from - 1] ?? "") || LETTER.test(text[to] ?? ""));
    if (!isInside) hits.push({ from, to, kind: "keyword" });
  }
  return hits;
}

/** The server's patterns cannot run away; the browser's can, so those that might are left alone. */
function isHarmless(pattern: string): boolean {
  const open = pattern.match(/[+*]|\{\d+,/g) ?? [];
  return open.length < 3 && !/[+*}|?]\S*\)[+*{]/.test(pattern);
}

function patternHits(text: string, pattern: string): Hit[] {
  if (!isHarmless(pattern)) return [];
  const flags = /^\(\?([a-z]+)\)/.exec(pattern);
  const source = pattern.slice(flags?.[0].length ?? 0).replaceAll("(?P<", "(?<");
  try {
    const found = text.slice(0, LONGEST_FOR_PATTERNS).matchAll(new RegExp(source, "giu"));
    return [...found].filter((each) => each[0]).map((each) => ({ from: each.index, to: each.index + each[0].length, kind: "pattern" }));
  } catch {
    return [];
  }
}

function hitsOf(text: string, route: RouteModel): Hit[] {
  const keywords = new Set([...route.matched_keywords, ...route.candidates.flatMap((each) => each.matched_keywords ?? [])]);
  const patterns = new Set([...route.matched_patterns, ...route.candidates.flatMap((each) => each.matched_patterns ?? [])]);
  const hits = [...[...keywords].flatMap((each) => keywordHits(text, each)), ...[...patterns].flatMap((each) => patternHits(text, each))];
  hits.sort((a, b) => a.from - b.from || b.to - a.to);
  let free = 0;
  return hits.filter((hit) => {
    if (hit.from < free) return false;
    free = hit.to;
    return true;
  });
}

export function Matches({ text, route }: { text: string; route: RouteModel }): VNode {
  const shown = text.slice(0, LONGEST);
  const parts: VNode[] = [];
  let at = 0;
  for (const hit of hitsOf(shown, route)) {
    if (hit.from > at) parts.push(<Plain text={shown.slice(at, hit.from)} />);
    parts.push(
      <mark class={hit.kind} title={t(hit.kind === "keyword" ? "agents.keyword" : "agents.pattern")}>
        <Plain text={shown.slice(hit.from, hit.to)} />
      </mark>,
    );
    at = hit.to;
  }
  return (
    <blockquote class="matches" dir="auto">
      {parts}
      <Plain text={shown.slice(at)} />
    </blockquote>
  );
}
