// dagre is published as one file that a bundler cannot take apart, with a map that holds the modules
// it was made of. Here it is built from those, without what our drawings never need: boxes within
// boxes, layouts that go on from earlier ones, other ways to rank, labels beside their lines.
// `check_lean.mjs` sees to it that drawings come out as those of the whole dagre.
import { readFileSync } from "node:fs";
import { posix } from "node:path";

/** Modules that do nothing to our drawings. */
const MODULES = ["greedy-fas", "order/add-subgraph-constraints", "rank/network-simplex"];

/** Methods of graphs that nobody calls. */
const METHODS = ["isCompound", "sinks", "setNodes", "neighbors", "isLeaf", "filterNodes", "setDefaultEdgeLabel", "edgeCount", "setPath", "edgeAsObj", "hasEdge"];

/** Functions of which our drawings need only this. */
const BODIES = {
  layout: {
    layout: `
      const whole = buildLayoutGraph(g);
      makeSpaceForEdgeLabels(whole);
      acyclic.run(whole);
      nestingGraph.run(whole);
      rank(whole);
      injectEdgeLabelProxies(whole);
      nestingGraph.cleanup(whole);
      normalizeRanks(whole);
      removeEdgeLabelProxies(whole);
      normalize.run(whole);
      order(whole);
      coordinateSystem.adjust(whole);
      position(whole);
      normalize.undo(whole);
      coordinateSystem.undo(whole);
      translateGraph(whole);
      assignNodeIntersects(whole);
      reversePointsForReversedEdges(whole);
      acyclic.undo(whole);
      updateInputGraph(g, whole);
      return g;`,
  },
  "coordinate-system": {
    adjust: "swapWidthHeight(graph);",
    undo: "swapXY(graph); swapWidthHeight(graph);",
  },
  "nesting-graph": {
    run: `
      const root = addDummyNode(graph, "root", {}, "_root");
      graph.graph().nestingRoot = root;
      for (const v of graph.nodes()) if (v !== root) graph.setEdge(root, v, { weight: 0, minlen: 1 });`,
  },
  "order/resolve-conflicts": {
    resolveConflicts: "return entries.map(({ v, ...entry }, i) => ({ vs: [v], i, ...entry })).reverse();",
  },
  "position/bk": {
    findType2Conflicts: "return {};",
    sep: "return (g, v, w) => [v, w].reduce((sum, each) => sum + (g.node(each).width + (g.node(each).dummy ? edgeSep : nodeSep)) / 2, 0);",
  },
  rank: { rank: "tightTreeRanker(graph);" },
  util: {
    applyWithChunking: "return fn(...argsArray);",
    asNonCompoundGraph: "return graph;",
    compareByOldOrder: "return 0;",
  },
};

/** Parts of functions, and what stands there instead. */
const PARTS = {
  acyclic: [
    [/\(graph\.graph\(\)\.acyclicer[^]*?(dfsFAS\(.+\))\);/, "$1;"],
    [/function dfsDynamic[^]*?\n {4}\}\n/, ""],
    [/let dfsFn[^]*?\n {4}\}\n/, "const dfsFn = dfs;\n"],
  ],
  "order/sort-subgraph": [
    [/barycenters\.forEach[^]*?\n {4}\}\);\n/, ""],
    ["expandSubgraphs(entries, subgraphs);", ""],
    [/if \(bl && br\)[^]*?\n {4}\}\n/, ""],
  ],
  "position/bk": [
    [/let modifiedLayer[^]*?\n {8}\}\n {8}modifiedLayer/, "layer"],
    [/if \(corePath[^]*?\n {16}\}\n/, ""],
    [/if \(hasShifted[^]*?\n {28}\}\n/, ""],
    [/if \(align\)[^]*?\n {8}\}\n/, ""],
  ],
};

function replaced(code, part, by) {
  if (code.split(part).length < 2) throw new Error(`dagre is made in another way now, without ${part}: see scripts/lean.mjs`);
  return code.replace(part, by);
}

export function cut(name, given) {
  if (MODULES.includes(name)) return "export default () => {};";
  // All its algorithms are gathered there; only graphs are needed.
  if (name === "graph-lib") return 'export { Graph } from "@dagrejs/graphlib"; export const alg = {};';
  let code = given;
  for (const [each, body] of Object.entries(BODIES[name] ?? {})) {
    const whole = new RegExp(`(\\n(?:export )?(?:default )?function ${each}[(<][^]*? \\{\\n)[^]*?\\n\\}\\n`);
    code = replaced(code, whole, `$1${body}\n}\n`);
  }
  for (const [part, by] of PARTS[name] ?? []) code = replaced(code, part, by);
  if (name === "graph") for (const each of METHODS) code = replaced(code, new RegExp(`\\n {4}${each}\\([^]*?\\n {4}\\}\\n`), "\n");
  return code;
}

/** The modules of dagre by their paths. */
function read(file) {
  const map = JSON.parse(readFileSync(`${file}.map`, "utf8"));
  const path = (source) => posix.join(posix.dirname(file), source);
  return new Map(map.sources.map((source, at) => [path(source), map.sourcesContent[at]]));
}

export function lean() {
  let modules = new Map();
  const find = (end) => [...modules.keys()].find((path) => path.endsWith(end));
  return {
    name: "lean",
    enforce: "pre",
    async resolveId(source, importer) {
      if (source === "@dagrejs/dagre") {
        modules = read((await this.resolve(source, importer, { skipSelf: true })).id);
        return find("/dagre/index.ts");
      }
      if (!modules.has(importer)) return null;
      if (source === "@dagrejs/graphlib") return find("/graphlib/lib/graph.ts");
      const path = posix.join(posix.dirname(importer), source);
      return [`${path}.ts`, `${path}/index.ts`].find((each) => modules.has(each));
    },
    load(id) {
      if (!modules.has(id)) return null;
      const name = /\/lib\/(.+?)(?:\/index)?\.ts$/.exec(id)?.[1];
      return { code: cut(name, modules.get(id)), moduleSideEffects: false };
    },
  };
}
