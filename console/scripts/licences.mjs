// What others wrote and is built in stands there with its licence.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const BUILT_IN = ["preact", "@dagrejs/dagre", "@dagrejs/graphlib"];

export function licences() {
  const folder = join(import.meta.dirname, "../node_modules");
  const told = BUILT_IN.map((name) => {
    const { version, license } = JSON.parse(readFileSync(join(folder, name, "package.json"), "utf8"));
    return `${name} ${version} (${license})\n\n${readFileSync(join(folder, name, "LICENSE"), "utf8").trim()}\n`;
  });
  return {
    name: "licences",
    buildStart() {
      this.emitFile({ type: "asset", fileName: "licences.txt", source: told.join("\n\n") });
    },
  };
}
