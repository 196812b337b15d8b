/** Layouts that need no search: quick for any number of boxes, and what stands there stays there. */
import { grouped } from "../lib/grouped";
import type { Arrange, Arrow, Box, Layout, Place, Way } from "./layout";

export type Placed = Box & Place;

/** What is left free around a drawing: a loop and its label fit in. */
export const ROOM = 28;
const GAP = 34;

/** Above a box, from it to itself. */
export function loop({ x, y, height }: Placed): Way {
  const top = y - height / 2;
  const corners = [[22, 0], [22, 14], [-22, 14], [-22, 0]] as const;
  return { points: corners.map(([right, up]) => ({ x: x + right, y: top - up })), label: { x, y: top - 21 } };
}

/** Where the line from the middle of a box to a point leaves the box. */
function edgeOf({ x, y, width, height }: Placed, to: Place): Place {
  const dx = to.x - x;
  const dy = to.y - y;
  const part = Math.min(width / 2 / Math.abs(dx || 1e-9), height / 2 / Math.abs(dy || 1e-9), 1);
  return { x: x + dx * part, y: y + dy * part };
}

/** A bow, so that the way there and the way back are two lines. */
function bow(a: Placed, b: Placed): Way {
  const length = Math.hypot(b.x - a.x, b.y - a.y);
  const bend = Math.min(28, length / 6) / length;
  const top = { x: (a.x + b.x) / 2 + (a.y - b.y) * bend, y: (a.y + b.y) / 2 + (b.x - a.x) * bend };
  return { points: [edgeOf(a, top), top, edgeOf(b, top)], label: top };
}

/** Down in its own column, then across: for boxes that have a row of their own. */
function corner(a: Placed, b: Placed): Way {
  const leaves = { x: a.x, y: a.y + a.height / 2 };
  if (a.x === b.x) {
    const end = { x: b.x, y: b.y - b.height / 2 };
    return { points: [leaves, end], label: { x: a.x, y: (leaves.y + end.y) / 2 } };
  }
  const end = { x: b.x - (Math.sign(b.x - a.x) * b.width) / 2, y: b.y };
  return { points: [leaves, { x: a.x, y: b.y }, end], label: { x: (a.x + end.x) / 2, y: b.y - 11 } };
}

interface Grid {
  /** Column and row of a box. */
  cellOf: (id: string, at: number) => [number, number];
  gap: number;
  line: (a: Placed, b: Placed) => Way;
}

function inGrid(boxes: Box[], arrows: Arrow[], { cellOf, gap, line }: Grid): Layout {
  const cells = boxes.map(({ id }, at) => cellOf(id, at));
  const widths: number[] = [];
  cells.forEach(([column], at) => (widths[column] = Math.max(widths[column] ?? 0, boxes[at]!.width)));
  const left = (column: number): number => widths.slice(0, column).reduce((sum, each) => sum + each + gap, ROOM);
  const placed = boxes.map((box, at): [string, Placed] => {
    const [column, row] = cells[at]!;
    return [box.id, { ...box, x: left(column) + widths[column]! / 2, y: ROOM + row * (box.height + GAP) + box.height / 2 }];
  });
  const places = new Map(placed);
  const way = ({ from, to }: Arrow): Way => (from === to ? loop(places.get(from)!) : line(places.get(from)!, places.get(to)!));
  return {
    width: left(widths.length) - gap + ROOM,
    height: Math.max(...placed.map(([, box]) => box.y + box.height / 2), 0) + ROOM,
    boxes: places,
    arrows: new Map(arrows.map((arrow) => [arrow.id, way(arrow)])),
  };
}

/** How many steps each box is away from the first. */
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

/** One column for each step away from the first box, in the order that is given. */
export const inLayers: Arrange = (boxes, arrows) => {
  const rank = ranks(boxes, arrows);
  const layers = grouped([...rank.keys()], (id) => rank.get(id)!);
  const longest = Math.max(...[...layers.values()].map((layer) => layer.length), 0);
  const cellOf = (id: string): [number, number] => {
    const layer = layers.get(rank.get(id)!)!;
    return [rank.get(id)!, layer.indexOf(id) + (longest - layer.length) / 2];
  };
  return inGrid(boxes, arrows, { cellOf, gap: 3 * GAP, line: bow });
};

/**
 * As time goes by, downward: each box has a row of its own, and `laneOf` says in which column. A box
 * that is added stands below the others, which stay where they are.
 */
export const inLanes =
  (laneOf: (id: string) => number): Arrange =>
  (boxes, arrows) =>
    inGrid(boxes, arrows, { cellOf: (id, at) => [laneOf(id), at], gap: GAP, line: corner });
