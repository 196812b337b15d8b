// Tells how much JavaScript a browser loads at most, and fails above the budget.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET = 60_000;
const folder = join(process.argv[2] ?? join(import.meta.dirname, "../../src/ekiden/server/static"), "assets");
let total = 0;
for (const name of readdirSync(folder).filter((each) => each.endsWith(".js")).sort()) {
  const bytes = gzipSync(readFileSync(join(folder, name)), { level: 9 }).length;
  total += bytes;
  console.log(`${String(bytes).padStart(7)} ${name}`);
}
console.log(`${String(total).padStart(7)} bytes of JavaScript in all, gzip; ${BUDGET} are the most`);
if (total >= BUDGET) process.exit(1);
