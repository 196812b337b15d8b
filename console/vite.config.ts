import { defineConfig } from "vite";
import { lean } from "./scripts/lean.mjs";
import { licences } from "./scripts/licences.mjs";
import { words } from "./scripts/words.mjs";

// The same sources give the same files, to the byte: the names hold hashes of the contents, and
// nothing of the machine or the time is written into them.
export default defineConfig({
  base: "./",
  plugins: [words(), lean(), licences()],
  // Calls of `h` take less room than those of the automatic runtime that the types know of.
  oxc: { jsx: { runtime: "classic", pragma: "h", pragmaFrag: "Fragment" }, jsxInject: 'import { h, Fragment } from "preact";' },
  build: {
    outDir: "../src/ekiden/server/static",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    reportCompressedSize: false,
  },
});
