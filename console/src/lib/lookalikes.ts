/** Letters and signs that look like Latin ones where Latin ones are expected. */

// Not letters of a living script: wide, mathematical, Roman, phonetic, Cherokee and Lisu ones.
const TWINS =
  "\\uff10-\\uff19\\uff21-\\uff3a\\uff41-\\uff5a\\u{1d400}-\\u{1d7ff}\\u2102-\\u2149\\u2160-\\u217f\\u13a0-\\u13ff\\uab70-\\uabbf\\ua4d0-\\ua4f7\\u017f\\u01c0-\\u01c3\\u0250-\\u02af";
// Those of Cyrillic, Greek and Armenian that are drawn like Latin letters.
const DRAWN_ALIKE = "асеорхуѕіјһԁԛԝӏӀкгпьѵүҮвмнтАВСЕНКМОРТХУЅІЈοανυρικτχγωηεϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧօսոցհզյ";
const SIGNS = "\\u2024\\u2044\\u2215\\u2236\\u29f8\\ua789";

// Scripts that are written without spaces stand between words.
const WORD = new RegExp(
  `(?:(?![\\p{sc=Han}\\p{sc=Hira}\\p{sc=Kana}\\p{sc=Hang}])[\\p{L}\\p{M}\\p{N}_.@:/${SIGNS}-])+`,
  "gu",
);
const LABEL = new RegExp(`[${SIGNS}]|[^.@:/${SIGNS}-]+`, "gu");
const LATIN = /[A-Za-z]/;
const LOOKALIKE = new RegExp(`[\\u0370-\\u03ff\\u0400-\\u052f\\u0530-\\u058f${TWINS}${SIGNS}]`, "gu");
const ALL_ALIKE = new RegExp(`^[${TWINS}${SIGNS}${DRAWN_ALIKE}\\p{M}\\p{N}_]+$`, "u");
/** `α-helix` */
const GREEK_LETTER = /^[\u0370-\u03ff]$/;

/**
 * Where they are, and which. In a word with Latin letters these are all others that may look like
 * them; in a name such as `аррӏе.com`, of which another part is Latin, those of a part that could be
 * taken for Latin as a whole.
 */
export function* lookalikes(text: string): Generator<[number, string]> {
  for (const word of text.matchAll(WORD)) {
    if (!LATIN.test(word[0])) continue;
    for (const label of word[0].matchAll(LABEL)) {
      const isOdd = LATIN.test(label[0]) || (ALL_ALIKE.test(label[0]) && !GREEK_LETTER.test(label[0]));
      if (!isOdd) continue;
      for (const match of label[0].matchAll(LOOKALIKE)) yield [word.index + label.index + match.index, match[0]];
    }
  }
}
