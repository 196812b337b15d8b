/** The lines of arrows. */
import type { Place } from "./layout";

/** A line through the points, with round corners. */
export function path(points: Place[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let text = `M${first.x},${first.y}`;
  let last = first;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    if (!next) {
      text += `L${point.x},${point.y}`;
      return;
    }
    const a = near(point, last);
    const b = near(point, next);
    text += `L${a.x},${a.y}Q${point.x},${point.y} ${b.x},${b.y}`;
    last = point;
  });
  return text;
}

const ROUND = 40;

/** The place on the way from a corner to the next point at which the corner is over. */
function near(corner: Place, to: Place): Place {
  const length = Math.hypot(to.x - corner.x, to.y - corner.y) || 1;
  const part = Math.min(0.5, ROUND / length);
  return { x: corner.x + (to.x - corner.x) * part, y: corner.y + (to.y - corner.y) * part };
}

const ASIDE = 7;

function normal(a: Place, b: Place): Place {
  const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
  return { x: (a.y - b.y) / length, y: (b.x - a.x) / length };
}

/** The same line, a little beside it. */
export function beside(points: Place[]): Place[] {
  return points.map((point, at) => {
    const before = points[at - 1];
    const after = points[at + 1];
    const one = normal(before ?? point, before ? point : (after ?? point));
    const other = after ? normal(point, after) : one;
    const scale = ASIDE / Math.max(0.3, 1 + one.x * other.x + one.y * other.y);
    return { x: point.x + (one.x + other.x) * scale, y: point.y + (one.y + other.y) * scale };
  });
}
