// Draw many graphs with dagre as it is published and as it is built here: they must come out the same.
import { deepStrictEqual } from "node:assert";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { build } from "vite";
import { lean } from "./lean.mjs";

const GRAPHS = 300;

async function built(plugins) {
  const entry = new URL("../src/graph/layout.ts", import.meta.url).pathname;
  const lib = { entry, formats: ["es"] };
  const [{ output }] = await build({ configFile: false, logLevel: "silent", plugins, build: { lib, write: false, minify: true } });
  const file = join(mkdtempSync(join(tmpdir(), "lean-")), "layout.mjs");
  writeFileSync(file, output[0].code);
  const { layOut } = await import(file);
  rmSync(dirname(file), { recursive: true });
  return { layOut, size: output[0].code.length };
}

/** Numbers below `n` that look like chance and are the same each time. */
function dice(seed) {
  let state = seed * 2654435761 + 1;
  return (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
}

/** Chains, trees, loops, boxes on their own, ways there and back; but no way twice, as in our drawings. */
function graph(seed) {
  const roll = dice(seed);
  const boxes = Array.from({ length: 1 + roll(16) }, (_, at) => ({ id: seed % 2 ? `${at}` : `agent ${at}`, width: 60 + roll(150), height: 44 }));
  const one = () => boxes[roll(boxes.length)].id;
  const ways = Array.from({ length: roll(2 + boxes.length * 2) }, () => [one(), one()]);
  const arrows = ways.map(([from, to]) => ({ id: `${from} → ${to}`, from, to, labelWidth: roll(2) * 64 }));
  return [boxes, [...new Map(arrows.map((each) => [each.id, each])).values()]];
}

const [whole, ours] = [await built([]), await built([lean()])];
for (let seed = 0; seed < GRAPHS; seed++) {
  deepStrictEqual(ours.layOut(...graph(seed)), whole.layOut(...graph(seed)), `graph ${seed}`);
}
if (ours.size >= whole.size) throw new Error("nothing was left out of dagre");
console.log(`${GRAPHS} graphs drawn the same; ${whole.size - ours.size} bytes left out`);
