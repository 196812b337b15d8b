/** Boxes and arrows, drawn: by mouse, by keyboard and for screen readers. */
import type { ComponentChildren, VNode } from "preact";
import { useMemo } from "preact/hooks";
import { layOut, type Arrow, type Place } from "./layout";

export interface DrawnBox {
  id: string;
  label: string;
  /** A second, smaller line. */
  note?: string;
  /** Names of classes: `lit`, `done`, `bad`, `wait`, `busy`. */
  look?: string;
  title?: string;
}

export interface DrawnArrow extends Arrow {
  label?: string;
  look?: string;
  title: string;
}

interface Props {
  label: string;
  boxes: DrawnBox[];
  arrows: DrawnArrow[];
  direction?: "LR" | "TB";
  chosen?: string | null;
  /** Called with the id of a box or an arrow. */
  onChoose?: (id: string) => void;
  children?: ComponentChildren;
}

const HEIGHT = 44;
const MOST_LETTERS = 26;

/** Letters of Chinese and Japanese are twice as wide. */
function textWidth(text: string): number {
  let width = 0;
  for (const char of text) width += /[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\u{1f300}-\u{1faff}]/u.test(char) ? 2 : 1;
  return width;
}

export function shortened(text: string, most = MOST_LETTERS): string {
  if (textWidth(text) <= most) return text;
  let result = "";
  for (const char of text) {
    if (textWidth(result + char) > most - 1) break;
    result += char;
  }
  return `${result}…`;
}

const widthOf = (box: DrawnBox): number =>
  Math.max(72, 24 + 7.6 * Math.max(textWidth(shortened(box.label)), 0.85 * textWidth(shortened(box.note ?? "", 32))));

/** A line through the points, with round corners. */
function path(points: Place[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let text = `M${first.x},${first.y}`;
  rest.forEach((point, at) => {
    const next = rest[at + 1];
    if (next) text += `Q${point.x},${point.y} ${(point.x + next.x) / 2},${(point.y + next.y) / 2}`;
    else text += `L${point.x},${point.y}`;
  });
  return text;
}

function chooser(id: string, onChoose: Props["onChoose"]): Record<string, unknown> {
  if (!onChoose) return {};
  return {
    role: "button",
    tabIndex: 0,
    onClick: () => onChoose(id),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onChoose(id);
    },
  };
}

export function Drawing({ label, boxes, arrows, direction = "LR", chosen, onChoose, children }: Props): VNode {
  const shape = JSON.stringify([boxes.map((box) => [box.id, box.label, box.note]), arrows.map((each) => [each.id, each.from, each.to, each.label]), direction]);
  const laid = useMemo(
    () =>
      layOut(
        boxes.map((box) => ({ id: box.id, width: widthOf(box), height: HEIGHT })),
        arrows.map((each) => ({ ...each, ...(each.label ? { labelWidth: 10 + 6.6 * textWidth(each.label) } : {}) })),
        direction,
      ),
    [shape],
  );
  return (
    <div class="drawing" tabIndex={0} role="group" aria-label={label}>
      <svg width={laid.width} height={laid.height} viewBox={`0 0 ${laid.width} ${laid.height}`}>
        <defs>
          <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
            <path d="M0,0 8,4 0,8z" class="head" />
          </marker>
        </defs>
        {arrows.map((each) => {
          const place = laid.arrows.get(each.id);
          if (!place) return null;
          return (
            <g key={each.id} class={`arrow ${each.look ?? ""} ${chosen === each.id ? "chosen" : ""}`} aria-label={each.title} aria-pressed={onChoose ? chosen === each.id : undefined} data-arrow={each.id} {...chooser(each.id, onChoose)}>
              <title>{each.title}</title>
              <path d={path(place.points)} class="grip" />
              <path d={path(place.points)} class="line" marker-end="url(#head)" />
              {each.label && place.label && (
                <text x={place.label.x} y={place.label.y} dy="4">
                  {each.label}
                </text>
              )}
            </g>
          );
        })}
        {boxes.map((box) => {
          const at = laid.boxes.get(box.id)!;
          const width = widthOf(box);
          return (
            <g key={box.id} class={`box ${box.look ?? ""} ${chosen === box.id ? "chosen" : ""}`} aria-label={box.title ?? [box.label, box.note].filter(Boolean).join(", ")} aria-pressed={onChoose ? chosen === box.id : undefined} data-box={box.id} {...chooser(box.id, onChoose)}>
              <title>{box.title ?? box.label}</title>
              <rect x={at.x - width / 2} y={at.y - HEIGHT / 2} width={width} height={HEIGHT} rx="8" />
              <text x={at.x} y={at.y} dy={box.note ? -3 : 5}>
                {shortened(box.label)}
              </text>
              {box.note && (
                <text class="note" x={at.x} y={at.y} dy="13">
                  {shortened(box.note, 32)}
                </text>
              )}
            </g>
          );
        })}
        {children}
      </svg>
    </div>
  );
}
