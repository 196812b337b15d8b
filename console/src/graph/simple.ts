/** Layouts that need no search: quick for any number of boxes, and what stands there stays there. */
import { grouped } from "../lib/grouped";
import type { Arrange, Arrow, Box, Layout, Place } from "./layout";

const MARGIN = 16;
const GAP = 34;

interface Middle {
  points: Place[];
  label: Place;
}

/** Where the line from the middle of a box to a point leaves the box. */
function edgeOf(box: Box, at: Place, to: Place): Place {
  const dx = to.x - at.x;
  const dy = to.y - at.y;
  const part = Math.min(box.width / 2 / Math.abs(dx || 1e-9), box.height / 2 / Math.abs(dy || 1e-9), 1);
  return { x: at.x + dx * part, y: at.y + dy * part };
}

/** A bow, so that the way there and the way back are two lines. */
function bow(from: Box, to: Box, a: Place, b: Place): Middle {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  const bend = Math.min(28, length / 6) / length;
  const top = { x: (a.x + b.x) / 2 + (a.y - b.y) * bend, y: (a.y + b.y) / 2 + (b.x - a.x) * bend };
  return { points: [edgeOf(from, a, top), top, edgeOf(to, b, top)], label: top };
}

function ranks(boxes: Box[], arrows: Arrow[]): Map<string, number> {
  const nexts = grouped(arrows, (arrow) => arrow.from);
  const found = new Map<string, number>();
  for (const { id } of boxes) {
    if (found.has(id)) continue;
    found.set(id, 0);
    const queue = [id];
    for (const each of queue) {
      for (const { to } of nexts.get(each) ?? []) {
        if (found.has(to)) continue;
        found.set(to, found.get(each)! + 1);
        queue.push(to);
      }
    }
  }
  return found;
}

/** One layer for each step away from the first box, in the order that is given. */
export const inLayers: Arrange = (boxes, arrows, direction) => {
  const rank = ranks(boxes, arrows);
  const layers = [...grouped(boxes, (box) => rank.get(box.id)!)].sort(([a], [b]) => a - b);
  const wide = Math.max(...boxes.map((box) => box.width), 0) + GAP;
  const high = Math.max(...boxes.map((box) => box.height), 0) + GAP;
  const longest = Math.max(...layers.map(([, layer]) => layer.length), 1);
  const isRight = direction === "LR";
  const places = new Map<string, Place>();
  for (const [at, layer] of layers) {
    layer.forEach((box, index) => {
      const along = at + 0.5;
      const across = index + 0.5 + (longest - layer.length) / 2;
      const [x, y] = isRight ? [along * (wide + 2 * GAP), across * high] : [across * wide, along * (high + GAP)];
      places.set(box.id, { x: x + MARGIN, y: y + MARGIN });
    });
  }
  const [along, across] = [layers.length, longest];
  const [width, height] = isRight ? [along * (wide + 2 * GAP), across * high] : [across * wide, along * (high + GAP)];
  const sizes = new Map(boxes.map((box) => [box.id, box]));
  return {
    width: Math.ceil(width) + 2 * MARGIN,
    height: Math.ceil(height) + 2 * MARGIN,
    boxes: places,
    arrows: new Map(
      arrows.map(({ id, from, to }) => [id, bow(sizes.get(from)!, sizes.get(to)!, places.get(from)!, places.get(to)!)]),
    ),
  };
};

/**
 * As time goes by, downward: each box has a row of its own, and `laneOf` says in which column. A box
 * that is added stands below the others, which stay where they are.
 */
export const inLanes =
  (laneOf: (id: string) => number): Arrange =>
  (boxes, arrows): Layout => {
    const widths: number[] = [];
    for (const box of boxes) widths[laneOf(box.id)] = Math.max(widths[laneOf(box.id)] ?? 0, box.width);
    const left = widths.map((_, lane) => MARGIN + widths.slice(0, lane).reduce((sum, each) => sum + each + GAP, 0));
    const row = (boxes[0]?.height ?? 0) + GAP;
    const places = new Map(
      boxes.map((box, at): [string, Place] => {
        const lane = laneOf(box.id);
        return [box.id, { x: left[lane]! + widths[lane]! / 2, y: MARGIN + row * at + box.height / 2 }];
      }),
    );
    const sizes = new Map(boxes.map((box) => [box.id, box]));
    return {
      width: widths.reduce((sum, each) => sum + each + GAP, 2 * MARGIN - GAP),
      height: row * boxes.length - GAP + 2 * MARGIN,
      boxes: places,
      arrows: new Map(
        arrows.map(({ id, from, to }) => [id, corner(sizes.get(from)!, sizes.get(to)!, places.get(from)!, places.get(to)!)]),
      ),
    };
  };

/** Down in its own lane, then across: a row holds one box, so nothing is crossed. */
function corner(from: Box, to: Box, a: Place, b: Place): Middle {
  const leaves = { x: a.x, y: a.y + from.height / 2 };
  if (a.x === b.x) {
    const end = { x: b.x, y: b.y - to.height / 2 };
    return { points: [leaves, end], label: { x: a.x, y: (leaves.y + end.y) / 2 } };
  }
  const end = { x: b.x - (Math.sign(b.x - a.x) * to.width) / 2, y: b.y };
  return { points: [leaves, { x: a.x, y: b.y }, end], label: { x: (a.x + end.x) / 2, y: b.y - 11 } };
}
