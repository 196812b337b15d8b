/**
 * Texts that come from models, tools and people, shown as they are: what would be invisible, turn
 * the line around or look like something else is made visible.
 */
import type { VNode } from "preact";
import { t } from "./words";

// Controls, invisible and direction characters, odd spaces, tags, variation selectors on nothing,
// private use and halves of characters.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffc\ue000-\uf8ff]|[\u{e0000}-\u{e0fff}]|[\u{f0000}-\u{10ffff}]|\p{Cs}/gu;

// Letters of other scripts that look like Latin ones, inside a word that has Latin letters too.
const WORD = /[\p{L}\p{M}\p{N}_]+/gu;
const LATIN = /[A-Za-z]/;
const LOOKALIKE = /[\u0370-\u03ff\u0400-\u052f\u0530-\u058f\u13a0-\u13ff\uff21-\uff3a\uff41-\uff5a\u{1d400}-\u{1d7ff}]/gu;

interface Piece {
  text: string;
  code: string | null;
  kind: "plain" | "hidden" | "lookalike";
}

const code = (char: string): string => `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;

/** Emoji are joined by characters that nobody sees, and that is right. */
function isPartOfEmoji(text: string, at: number, char: string): boolean {
  if (char !== "\u200d" && char !== "\ufe0e") return false;
  const before = /\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]*$/u.test(text.slice(Math.max(0, at - 8), at));
  return before && (char === "\ufe0e" || /^\p{Extended_Pictographic}/u.test(text.slice(at + 1, at + 4)));
}

function found(text: string): Map<number, Piece> {
  const marks = new Map<number, Piece>();
  for (const match of text.matchAll(HIDDEN)) {
    // The space of Chinese and Japanese texts is one that its readers see.
    if (match[0] === "\u3000" || isPartOfEmoji(text, match.index, match[0])) continue;
    marks.set(match.index, { text: match[0], code: code(match[0]), kind: "hidden" });
  }
  for (const word of text.matchAll(WORD)) {
    if (!LATIN.test(word[0])) continue;
    for (const match of word[0].matchAll(LOOKALIKE)) {
      marks.set(word.index + match.index, { text: match[0], code: code(match[0]), kind: "lookalike" });
    }
  }
  return marks;
}

/** The text in pieces, those that deceive apart from the rest. */
export function pieces(text: string): Piece[] {
  const result: Piece[] = [];
  let from = 0;
  const marks = found(text);
  for (const at of [...marks.keys()].sort((a, b) => a - b)) {
    const mark = marks.get(at)!;
    if (at > from) result.push({ text: text.slice(from, at), code: null, kind: "plain" });
    result.push(mark);
    from = at + mark.text.length;
  }
  if (from < text.length) result.push({ text: text.slice(from), code: null, kind: "plain" });
  return result;
}

export const hasHidden = (text: string): boolean => found(text).size > 0;

/** A text whose hidden and misleading characters are seen. */
export function Plain({ text }: { text: string }): VNode {
  const list = pieces(text);
  if (list.length === 1 && list[0]!.kind === "plain") return <bdi>{text}</bdi>;
  return (
    <bdi>
      {list.map((piece) =>
        piece.kind === "plain" ? (
          piece.text
        ) : (
          <mark class="odd" title={t(piece.kind === "hidden" ? "common.hidden_character" : "common.lookalike", { code: piece.code! })}>
            {piece.kind === "lookalike" && piece.text}
            <small>{piece.code}</small>
          </mark>
        ),
      )}
    </bdi>
  );
}
