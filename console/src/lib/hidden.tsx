/**
 * Texts that come from models, tools and people, shown as they are: what would be invisible, turn
 * the line around or look like something else is made visible.
 */
import type { VNode } from "preact";
import { lookalikes } from "./lookalikes";
import { t } from "./words";

// Controls, invisible and direction characters, odd spaces, tags, blank signs, private use and
// halves of characters, as often as one stands there. The space of Chinese and Japanese texts is
// one that its readers see.
const HIDDEN =
  /(?<one>(?![ \t\n\u3000])[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Z}\p{Default_Ignorable_Code_Point}\u2800\ufff0-\ufffc\u{1d159}])\k<one>*/gu;
/** Spaces that keep words together: French and many numbers are written with them. */
const HARMLESS = /^[\u00a0\u202f]/;
/** More marks than that would keep the page busy. */
const MOST_MARKS = 2000;

interface Piece {
  text: string;
  code: string | null;
  kind: "plain" | "hidden" | "lookalike" | "more";
}

const codeOf = (char: string): string => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

const PICTOGRAPH_BEFORE = /\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]*$/u;
const JOINED = "(?=[\\p{L}\\p{M}])[\\u0620-\\u085f\\u08a0-\\u0dff\\u1000-\\u109f\\u1780-\\u17ff]";
const JOINED_BEFORE = new RegExp(`${JOINED}$`, "u");
const JOINED_AFTER = new RegExp(`^${JOINED}`, "u");

/** Emoji, Persian and Indian letters are joined or kept apart by what nobody sees, and that is right. */
function isInPlace(text: string, at: number, char: string): boolean {
  if (!/^[\u200c\u200d\ufe0e\ufe0f]$/.test(char)) return false;
  const before = text.slice(Math.max(0, at - 8), at);
  const after = text.slice(at + 1, at + 4);
  if (char >= "\ufe0e") return PICTOGRAPH_BEFORE.test(before) || (/[0-9#*]$/.test(before) && after[0] === "\u20e3");
  if (char === "\u200d" && PICTOGRAPH_BEFORE.test(before)) return /^\p{Extended_Pictographic}/u.test(after);
  return JOINED_BEFORE.test(before) && JOINED_AFTER.test(after);
}

interface Mark extends Piece {
  at: number;
}

function found(text: string): Mark[] {
  const marks: Mark[] = [];
  for (const { 0: run, index: at, groups } of text.matchAll(HIDDEN)) {
    if (isInPlace(text, at, run)) continue;
    const one = groups!.one!;
    const times = run.length / one.length;
    marks.push({ at, text: run, code: codeOf(one) + (times > 1 ? ` ×${times}` : ""), kind: "hidden" });
  }
  const hidden = marks.length;
  for (const [at, char] of lookalikes(text)) marks.push({ at, text: char, code: codeOf(char), kind: "lookalike" });
  return hidden && hidden < marks.length ? marks.sort((a, b) => a.at - b.at) : marks;
}

const plain = (text: string): Piece[] => (text ? [{ text, code: null, kind: "plain" }] : []);

/** What comes after too many marks: whatever deceives is replaced, and how much it is stands before.
 * Neighbours are replaced together: to lay out 200,000 signs takes a browser seconds. */
function remaining(text: string, from: number, marks: Mark[]): Piece[] {
  let result = "";
  for (const mark of marks) {
    if (mark.at > from || !result) result += `${text.slice(from, mark.at)}\ufffd`;
    from = mark.at + mark.text.length;
  }
  return [{ text: t("common.more_marks", { n: marks.length }), code: null, kind: "more" }, ...plain(result + text.slice(from))];
}

/** The text in pieces, those that deceive apart from the rest. */
export function pieces(text: string): Piece[] {
  const result: Piece[] = [];
  const marks = found(text);
  let from = 0;
  for (const mark of marks.slice(0, MOST_MARKS)) {
    result.push(...plain(text.slice(from, mark.at)), mark);
    from = mark.at + mark.text.length;
  }
  const rest = marks.slice(MOST_MARKS);
  return [...result, ...(rest.length ? remaining(text, from, rest) : plain(text.slice(from)))];
}

/** Whether something in the text is hidden or misleads: a space that keeps words together does not. */
export const hasHidden = (text: string): boolean => found(text).some((mark) => !HARMLESS.test(mark.text));

function Odd({ text, code, kind }: Piece): VNode {
  if (kind === "more") return <mark class="odd">{text}</mark>;
  return (
    <mark class="odd" title={t(kind === "hidden" ? "common.hidden_character" : "common.lookalike", { code: code! })}>
      {kind === "lookalike" && text}
      <small>{code}</small>
    </mark>
  );
}

/** A text whose hidden and misleading characters are seen. */
export function Plain({ text }: { text: string }): VNode {
  return <bdi>{pieces(text).map((piece) => (piece.kind === "plain" ? piece.text : Odd(piece)))}</bdi>;
}
