/** The words of the interface, in the reader's language. */
import urls from "virtual:words";
import type agents from "../words/agents.json";
import type audit from "../words/audit.json";
import type common from "../words/common.json";
import type graph from "../words/graph.json";
import type inbox from "../words/inbox.json";
import type plans from "../words/plans.json";
import type session from "../words/session.json";
import type sessions from "../words/sessions.json";
import type trace from "../words/trace.json";

interface Areas {
  agents: typeof agents;
  audit: typeof audit;
  common: typeof common;
  graph: typeof graph;
  inbox: typeof inbox;
  plans: typeof plans;
  session: typeof session;
  sessions: typeof sessions;
  trace: typeof trace;
}

export type Word = { [Area in keyof Areas]: `${Area}.${keyof Areas[Area] & string}` }[keyof Areas];
export type Language = "en" | "zh";

const SAVED = "ekiden.language";
let texts: Record<string, string> = {};
let language: Language = "en";

export function wantedLanguage(): Language {
  const saved = localStorage.getItem(SAVED);
  if (saved === "en" || saved === "zh") return saved;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}

export async function loadWords(wanted: Language): Promise<void> {
  const response = await fetch(urls[wanted]);
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  texts = (await response.json()) as Record<string, string>;
  language = wanted;
  document.documentElement.lang = wanted === "zh" ? "zh-Hans" : "en";
}

export function saveLanguage(wanted: Language): void {
  localStorage.setItem(SAVED, wanted);
}

export const currentLanguage = (): Language => language;

/** A text; `{name}` is filled in, and of `one|many` the one that fits `n` is taken. */
export function t(word: Word, values: Record<string, string | number> = {}): string {
  let text = texts[word] ?? word;
  if ("n" in values && text.includes("|")) {
    const [one = "", many = ""] = text.split("|");
    text = values.n === 1 ? one : many;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => String(values[name] ?? whole));
}

/** A text for a word that comes from the server, or that word itself if there is none. */
export function named(area: keyof Areas, name: string): string {
  return texts[`${area}.${name}`] ?? name;
}
