// dagre carries algorithms that nobody here uses, and gathers them in objects when it is loaded, so
// that a bundler cannot tell. Here each use of such an object becomes a use of the thing itself, and
// what nobody uses is left out.
const GATHERED = /\b\w+\((\w+),\{((?:\w+:\(\)=>[\w$]+,?)+)\}\);/g;

function direct(code) {
  const found = [];
  let text = code.replace(GATHERED, (_, object, fields) => {
    found.push([object, new Map(fields.split(",").map((each) => each.split(":()=>")))]);
    return "";
  });
  if (!found.length) throw new Error("dagre is built in another way now: see scripts/lean.mjs");
  for (const [object, names] of found) {
    const uses = new RegExp(`(?<![\\w.$])${object}\\.(\\w+)`, "g");
    text = text.replace(uses, (whole, name) => names.get(name) ?? whole);
  }
  return text;
}

export function lean() {
  return {
    name: "lean",
    transform: (code, id) => (id.includes("/@dagrejs/dagre/") ? { code: direct(code), map: null } : null),
  };
}
