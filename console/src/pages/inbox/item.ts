/** A question to a person: what can be said to it, and what it hides. */
import type { InboxItem } from "../../api/types";
import { hasHidden, pieces } from "../../lib/hidden";
import { pretty } from "../../ui/basics";

export type Item = InboxItem;

export type Act = "approve" | "answer" | "reject" | "edit" | "snooze" | "assign" | "withdraw";

const YES = /^(approve|yes|ok|okay|allow|accept|confirm|seen|同意|批准|是|好)$/i;
const NO = /^(reject|no|deny|refuse|decline|不同意|拒绝|否|不)$/i;

/** The option that a plain yes stands for, if there is no doubt about it. */
export const yesOf = (item: Item): string | undefined => item.options.find((each) => YES.test(each));
export const noOf = (item: Item): string | undefined => item.options.find((each) => NO.test(each));

/** Whether the answer says nothing without words. */
export const needsWords = (item: Item, choice: string | undefined): boolean =>
  item.options.length ? item.kind === "handoff" && choice === "answer" : !item.notice;

/** The target of a handoff that needs a yes. */
export const handsTo = (item: Item): string | null => /^transfer_to_(.+)/.exec(item.tool ?? "")?.[1] ?? null;

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/**
 * JSON with one value a line, as exactly as it was written: numbers are not rounded, a key that is
 * there twice stays there twice. Only escapes in texts are turned into what they mean, so that they
 * hide nothing. What is no JSON stays as it is.
 */
export function readable(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  let result = "";
  let before = "";
  const line = (): string => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(TOKEN)) {
    const closes = token === "}" || token === "]";
    if (closes) depth--;
    const isFirst = before === "{" || before === "[";
    if ((closes && !isFirst) || before === "," || (isFirst && !closes)) result += line();
    result += token[0] === '"' ? JSON.stringify(JSON.parse(token)) : token;
    if (token === ":") result += " ";
    if (token === "{" || token === "[") depth++;
    before = token;
  }
  return result;
}

const whole = new WeakMap<Item, boolean>();

/** Whether something in the question is not what it seems. */
export function isMisleading(item: Item): boolean {
  let known = whole.get(item);
  if (known === undefined) {
    const { subject, body, tool, options, context } = item;
    known = [subject, body, tool ?? "", readable(item.arguments ?? ""), ...options, item.default ?? "", pretty(context)].some(hasHidden);
    whole.set(item, known);
  }
  return known;
}

/** A text with the codes of what deceives in it, for places that hold nothing but text. */
export const visible = (text: string): string =>
  pieces(text)
    .map((each) => (each.code ? `${each.kind === "hidden" ? "" : each.text}[${each.code}]` : each.text))
    .join("");

const questions = new WeakMap<Item, string>();

function asked(item: Item): string {
  let known = questions.get(item);
  if (known === undefined) {
    known = JSON.stringify([item.kind, item.from_agent, item.tool, item.arguments, item.subject, item.body, item.options, item.context]);
    questions.set(item, known);
  }
  return known;
}

/** How many of the list ask exactly the same as the item, itself among them. */
export function identical(item: Item, list: readonly Item[]): number {
  const own = asked(item);
  return list.filter((each) => each.subject === item.subject && asked(each) === own).length;
}

/** The most urgent first, and of those the one that waits longest. */
export const byUrgency = (a: Item, b: Item): number =>
  b.priority - a.priority || a.created_at_us - b.created_at_us || (a.id < b.id ? -1 : 1);
