/** Agents that wait for each other, in a circle: arrows go from who asks to who should answer. */
import type { VNode } from "preact";
import type { Deadlock } from "../../api/types";
import { Drawing, type DrawnArrow, type DrawnBox } from "../../graph/drawing";
import type { Arrange, Place } from "../../graph/layout";
import { t } from "../../lib/words";

const MARGIN = 24;
const SMALLEST = 84;
/** Pieces of the line from one box to the next. */
const PIECES = 60;

/** The boxes in their order on a circle, the arrows along it. */
const onCircle: Arrange = (boxes, arrows) => {
  const widest = Math.max(...boxes.map((box) => box.width));
  const radius = Math.max(SMALLEST, ((widest + 60) * boxes.length) / 6);
  const center = { x: radius + widest / 2 + MARGIN, y: radius + MARGIN * 2 };
  const on = (at: number): Place => {
    const angle = (at / boxes.length - 0.25) * 2 * Math.PI;
    return { x: center.x + radius * Math.cos(angle), y: center.y + radius * Math.sin(angle) };
  };
  const isOutside = (point: Place): boolean =>
    boxes.every(({ width, height }, at) => Math.abs(point.x - on(at).x) > width / 2 + 2 || Math.abs(point.y - on(at).y) > height / 2 + 2);
  const lines = arrows.map(({ id }, at) => {
    const points = Array.from({ length: PIECES }, (_, piece) => on(at + piece / PIECES)).filter(isOutside);
    return [id, { points, label: points[points.length >> 1] ?? null }] as const;
  });
  return { width: center.x * 2, height: center.y * 2, boxes: new Map(boxes.map(({ id }, at) => [id, on(at)])), arrows: new Map(lines) };
};

interface Asked {
  from: string;
  to: string;
  text: string | undefined;
  isGivenUp: boolean;
}

/** Who asked whom what, around the circle. */
export const asksOf = ({ cycle, asks }: Deadlock): Asked[] =>
  cycle.slice(0, -1).map((from, at) => {
    const to = cycle[at + 1]!;
    const ask = asks.find((each) => each.from === from && each.to === to);
    return { from, to, text: ask?.text ?? undefined, isGivenUp: ask?.given_up ?? false };
  });

export function Cycle({ deadlock }: { deadlock: Deadlock }): VNode {
  const { cycle, victim } = deadlock;
  const asks = asksOf(deadlock);
  const boxes = asks.map(({ from }): DrawnBox => ({
    id: from,
    label: from,
    ...(from === victim ? { look: "bad", note: `✕ ${t("agents.victim")}` } : { look: "wait" }),
  }));
  const arrows = asks.map(({ from, to, isGivenUp }, at): DrawnArrow => ({
    id: from,
    from,
    to,
    look: isGivenUp ? "bad" : "",
    label: isGivenUp ? "✕" : `${at + 1}`,
    title: t("agents.one_waits", { from, to }),
  }));
  return <Drawing label={cycle.join(t("agents.then_waits_for"))} boxes={boxes} arrows={arrows} arrange={onCircle} />;
}
