/** How wide texts are, about: enough to give boxes their size without asking the browser. */
import { pieces } from "../lib/hidden";

const MOST_LETTERS = 26;
// Letters of Chinese and Japanese are twice as wide.
const WIDE = /[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f300}-\u{1faff}]/u;

/** In letters. */
export function textWidth(text: string): number {
  let width = 0;
  for (const char of text) width += WIDE.test(char) ? 2 : 1;
  return width;
}

export function shortened(text: string, most = MOST_LETTERS): string {
  if (text.length < most / 2) return text;
  let width = 0;
  let fits = "";
  for (const char of text) {
    width += WIDE.test(char) ? 2 : 1;
    if (width > most) return `${fits.trimEnd()}…`;
    if (width < most) fits += char;
  }
  return text;
}

/** A text of which nothing is hidden, where only text can stand. */
export const seen = (text: string): string =>
  pieces(text)
    .map((piece) => (piece.kind === "hidden" ? `[${piece.code}]` : piece.text))
    .join("");
