// The words of the interface: `src/words/AREA.json` holds {"key": ["English", "中文"]}; each language
// becomes one JSON file that the page fetches, so that nobody loads a language they do not read.
// In the code a word stands as "AREA.key"; in what is built, as a short number.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const LANGUAGES = ["en", "zh"];
const NAME = "virtual:words";
const WORD = /"([a-z]+\.[a-z0-9_]+)"/g;

function read(folder) {
  const found = new Map();
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".json")).sort()) {
    const area = file.slice(0, -".json".length);
    for (const [key, texts] of Object.entries(JSON.parse(readFileSync(join(folder, file), "utf8")))) {
      if (texts.length !== LANGUAGES.length || texts.some((text) => !text)) {
        throw new Error(`${file}: ${key} needs a text in each of ${LANGUAGES}`);
      }
      found.set(`${area}.${key}`, texts);
    }
  }
  return found;
}

export function words() {
  const found = read(join(import.meta.dirname, "../src/words"));
  const numbers = new Map([...found.keys()].map((word, at) => [word, at.toString(36)]));
  // By its name a word is found, too: some are put together from what the server says.
  const file = (language) =>
    JSON.stringify(
      Object.fromEntries(
        [...found].flatMap(([word, texts]) => [
          [word, texts[language]],
          [numbers.get(word), texts[language]],
        ]),
      ),
    );
  return {
    name: "words",
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load(id) {
      if (id !== `\0${NAME}`) return undefined;
      const urls = LANGUAGES.map((language, at) => {
        const name = `words.${language}.json`;
        const ref = this.emitFile({ type: "asset", name, source: file(at) });
        return `${language}: import.meta.ROLLUP_FILE_URL_${ref}`;
      });
      return `export default { ${urls.join(", ")} };`;
    },
    transform(code, id) {
      if (id.startsWith("\0") || !/\/src\/.*\.tsx?$/.test(id)) return undefined;
      const short = code.replace(WORD, (whole, word) => (numbers.has(word) ? `"${numbers.get(word)}"` : whole));
      return { code: short, map: null };
    },
  };
}
