// The words of the interface: `src/words/AREA.json` holds {"key": ["English", "中文"]}; each language
// becomes one JSON file that the page fetches, so that nobody loads a language they do not read.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const LANGUAGES = ["en", "zh"];
const NAME = "virtual:words";

function read(folder) {
  const found = LANGUAGES.map(() => ({}));
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".json")).sort()) {
    const area = file.slice(0, -".json".length);
    for (const [key, texts] of Object.entries(JSON.parse(readFileSync(join(folder, file), "utf8")))) {
      if (texts.length !== LANGUAGES.length || texts.some((text) => !text)) {
        throw new Error(`${file}: ${key} needs a text in each of ${LANGUAGES}`);
      }
      texts.forEach((text, index) => (found[index][`${area}.${key}`] = text));
    }
  }
  return found;
}

export function words() {
  const folder = join(import.meta.dirname, "../src/words");
  return {
    name: "words",
    resolveId: (id) => (id === NAME ? `\0${NAME}` : undefined),
    load(id) {
      if (id !== `\0${NAME}`) return undefined;
      const urls = read(folder).map((texts, index) => {
        const name = `words.${LANGUAGES[index]}.json`;
        const ref = this.emitFile({ type: "asset", name, source: JSON.stringify(texts) });
        return `${LANGUAGES[index]}: import.meta.ROLLUP_FILE_URL_${ref}`;
      });
      return `export default { ${urls.join(", ")} };`;
    },
  };
}
