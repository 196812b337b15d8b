/** Boxes and arrows, drawn: by mouse, by keyboard and for screen readers. */
import type { VNode } from "preact";
import { useEffect, useId, useMemo, useRef } from "preact/hooks";
import { layOut, type Arrange, type Arrow, type Layout } from "./layout";
import { beside, path } from "./lines";
import { seen, shortened, textWidth } from "./widths";

export { shortened } from "./widths";

export interface DrawnBox {
  id: string;
  label: string;
  /** A second, smaller line. It may change: boxes are as wide as their labels need. */
  note?: string | undefined;
  /** Names of classes: `lit`, `done`, `bad`, `wait`, `busy`, `ghost`. */
  look?: string;
  title?: string;
}

export interface DrawnArrow extends Arrow {
  label?: string;
  /** Names of classes: `bad`, `busy`, `faint`. */
  look?: string;
  title: string;
  /** It was gone back: a second stroke shows that. */
  isBack?: boolean;
  /** It cannot be chosen. */
  isInert?: boolean;
}

interface Props {
  label: string;
  boxes: DrawnBox[];
  arrows: DrawnArrow[];
  arrange?: Arrange;
  /** The least width of a box; its second line is cut to fit. */
  boxWidth?: number;
  chosen?: string | null;
  /** Called with the id of a box or an arrow. */
  onChoose?: ((id: string) => void) | undefined;
  /** The id of the box or arrow that is to be seen when the drawing is larger than its place. */
  reveal?: string | null | undefined;
}

const HEIGHT = 44;
const LETTER = 7.6;
const SMALL_LETTER = 6.2;
/** Labels take room in steps of this, so that a count that grows moves nothing. */
const LABEL_STEP = 64;
/** With more, one does not want to pass them all with the tabulator. */
const MOST_STOPS = 80;

const widthOf = (box: DrawnBox, least: number): number => Math.max(least, 24 + LETTER * textWidth(shortened(box.label)));

const roomOf = ({ label = "", labelWidth }: DrawnArrow): number => labelWidth ?? LABEL_STEP * Math.ceil((7 * textWidth(label)) / LABEL_STEP);

function chooser(id: string, isStop: boolean, onChoose: Props["onChoose"]): Record<string, unknown> {
  if (!onChoose) return { role: "img" };
  return {
    role: "button",
    // In SVG the names of attributes are as they are written.
    tabindex: isStop ? 0 : -1,
    onClick: () => onChoose(id),
    onKeyDown: (event: KeyboardEvent) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onChoose(id);
    },
  };
}

const STEPS: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/** The arrow keys go from one to the next. */
function step(event: KeyboardEvent): void {
  const by = STEPS[event.key];
  const all = [...(event.currentTarget as Element).querySelectorAll<SVGGElement>("[role=button]")];
  const at = all.indexOf(event.target as SVGGElement);
  if (!by || at < 0) return;
  event.preventDefault();
  all[(at + by + all.length) % all.length]!.focus();
}

function useReveal(laid: Layout, reveal: string | null | undefined): { current: HTMLDivElement | null } {
  const place = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const at = reveal ? (laid.boxes.get(reveal) ?? laid.arrows.get(reveal)?.points.at(-1)) : null;
    const box = place.current;
    if (at && box) box.scrollTo({ left: at.x - box.clientWidth / 2, top: at.y - box.clientHeight / 2 });
  }, [laid, reveal]);
  return place;
}

interface PartProps {
  laid: Layout;
  isChosen: boolean;
  isStop: boolean;
  onChoose: Props["onChoose"];
}

function OneArrow({ each, laid, isChosen, isStop, onChoose, heads }: PartProps & { each: DrawnArrow; heads: string }): VNode | null {
  const place = laid.arrows.get(each.id);
  if (!place) return null;
  const line = path(place.points);
  const tone = each.look?.match(/bad|busy/)?.[0] ?? "";
  const choose = each.isInert ? undefined : onChoose;
  return (
    <g class={`arrow ${each.look ?? ""} ${isChosen ? "chosen" : ""}`} aria-pressed={choose && isChosen} data-arrow={each.id} {...chooser(each.id, isStop, choose)}>
      <title>{each.title}</title>
      <path d={line} class="grip" />
      <path d={line} class="line" marker-end={`url(#${heads}${tone})`} />
      {each.isBack && <path d={path(beside(place.points).reverse())} class="line back" marker-end={`url(#${heads}bad)`} />}
      {each.label && place.label && (
        <text x={place.label.x} y={place.label.y} dy="4" aria-hidden="true">
          {each.label}
        </text>
      )}
    </g>
  );
}

function OneBox({ box, width, laid, isChosen, isStop, onChoose }: PartProps & { box: DrawnBox; width: number }): VNode {
  const at = laid.boxes.get(box.id)!;
  return (
    <g class={`box ${box.look ?? ""} ${isChosen ? "chosen" : ""}`} aria-pressed={onChoose && isChosen} data-box={box.id} {...chooser(box.id, isStop, onChoose)}>
      <title>{box.title || [box.label, box.note].filter(Boolean).join(", ")}</title>
      <rect x={at.x - width / 2} y={at.y - HEIGHT / 2} width={width} height={HEIGHT} rx="8" />
      <text x={at.x} y={at.y} dy={box.note ? -3 : 5} aria-hidden="true">
        {shortened(box.label)}
      </text>
      {box.note && (
        <text class="note" x={at.x} y={at.y} dy="13" aria-hidden="true">
          {shortened(box.note, Math.floor((width - 12) / SMALL_LETTER))}
        </text>
      )}
    </g>
  );
}

export function Drawing({ label, boxes: given, arrows: lines, arrange = layOut, boxWidth = 72, chosen, onChoose, reveal }: Props): VNode {
  const heads = useId();
  const boxes = useMemo(() => given.map((box) => ({ ...box, label: seen(box.label), note: seen(box.note ?? ""), title: seen(box.title ?? "") })), [given]);
  const arrows = useMemo(() => lines.map((each) => ({ ...each, label: seen(each.label ?? ""), title: seen(each.title) })), [lines]);
  const sizes = boxes.map((box) => ({ id: box.id, width: widthOf(box, boxWidth), height: HEIGHT }));
  const ways = arrows.map((each) => ({ id: each.id, from: each.from, to: each.to, labelWidth: roomOf(each) }));
  const laid = useMemo(() => arrange(sizes, ways), [JSON.stringify([sizes, ways])]);
  const place = useReveal(laid, reveal);
  const isMany = boxes.length + arrows.length > MOST_STOPS;
  const first = chosen ?? boxes[0]?.id;
  const common = (id: string): PartProps => ({ laid, isChosen: chosen === id, isStop: !isMany || id === first, onChoose });
  return (
    <div class="drawing" tabIndex={0} role="group" aria-label={label} ref={place} onKeyDown={step}>
      <svg width={laid.width} height={laid.height} viewBox={`0 0 ${laid.width} ${laid.height}`}>
        <defs>
          {["", "bad", "busy"].map((tone) => (
            <marker key={tone} id={`${heads}${tone}`} viewBox="0 0 8 8" refX="7" refY="4" markerUnits="userSpaceOnUse" markerWidth="11" markerHeight="11" orient="auto-start-reverse">
              <path d="M0,0 8,4 0,8z" class={`head ${tone}`} />
            </marker>
          ))}
        </defs>
        {arrows.map((each) => (
          <OneArrow key={each.id} each={each} heads={heads} {...common(each.id)} />
        ))}
        {boxes.map((box, at) => (
          <OneBox key={box.id} box={box} width={sizes[at]!.width} {...common(box.id)} />
        ))}
      </svg>
    </div>
  );
}
