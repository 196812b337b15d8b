/** The rows of a trace under one axis of time, and the keyboard in them. */
import type { VNode } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { t } from "../../lib/words";
import { LongList } from "../../ui/long_list";
import { axisOf, workOf, type Axis } from "./axis";
import { SpanRow } from "./row";
import type { Row } from "./tree";

interface Props {
  id: string;
  rows: Row[];
  shown: Row[];
  folded: ReadonlySet<string>;
  onFold: (row: Row) => void;
  chosen: string | null;
  onChoose: (spanId: string | null) => void;
  /** The span that must be seen and have the focus; another object asks again. */
  goal: { id: string } | null;
}

const NARROW_PX = 740;
const LABEL_PX = 74;

/** How wide the waterfall is, and how much of the axis a label needs. */
function useWidths(): { box: { current: HTMLDivElement | null }; isNarrow: boolean; room: number } {
  const box = useRef<HTMLDivElement>(null);
  const [widths, setWidths] = useState({ isNarrow: false, room: 0.13 });
  useLayoutEffect(() => {
    const look = (): void => {
      const isNarrow = box.current!.clientWidth <= NARROW_PX;
      const room = Math.min(0.5, LABEL_PX / (box.current!.querySelector(".scale")!.clientWidth || 1));
      setWidths((old) => (old.isNarrow === isNarrow && old.room === room ? old : { isNarrow, room }));
    };
    look();
    const sizes = new ResizeObserver(look);
    sizes.observe(box.current!);
    return () => sizes.disconnect();
  }, []);
  return { box, ...widths };
}

/** The end of the axis: it moves while something goes on. */
function useEnd(rows: Row[]): number {
  const isOpen = rows.some((row) => row.span.ended_at === null);
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!isOpen) return undefined;
    const timer = window.setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => window.clearInterval(timer);
  }, [isOpen]);
  const last = useMemo(() => rows.reduce((most, { span }) => Math.max(most, span.ended_at ?? span.started_at), 0), [rows]);
  return isOpen ? Math.max(now, last) : last;
}

const percent = (share: number): string => `${(share * 100).toFixed(2)}%`;

/** The breaks as a picture behind all bars: one for all rows, whatever their number. */
function picture(axis: Axis): string {
  if (!axis.breaks.length) return "none";
  const stops = axis.breaks.flatMap(({ at, width }) => [
    `transparent ${percent(at)}`,
    `var(--break) ${percent(at)} ${percent(at + width)}`,
    `transparent ${percent(at + width)}`,
  ]);
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

/** The labels of the breaks that have room beside each other; all of them are read out. */
function Breaks({ axis, room }: { axis: Axis; room: number }): VNode {
  let free = 0;
  return (
    <>
      {axis.breaks.map((each) => {
        const at = Math.min(each.at + each.width / 2, 1 - room / 2);
        const isSeen = at >= free;
        if (isSeen) free = at + room;
        const words = t("trace.break", { time: each.label });
        return (
          <span key={each.at} class="break" style={{ left: percent(at) }} title={words}>
            <span class="hidden">{words}</span>
            {isSeen && <span aria-hidden="true">⋯ {each.label}</span>}
          </span>
        );
      })}
    </>
  );
}

function Scale({ axis, room }: { axis: Axis; room: number }): VNode {
  return (
    <span class="scale">
      <Breaks axis={axis} room={room} />
      {axis.ticks.map((tick) => (
        <span key={tick.at} class="tick" aria-hidden="true" style={{ left: percent(tick.at) }}>
          {tick.label}
        </span>
      ))}
    </span>
  );
}

/** Where an arrow key leads. */
function nextRow(key: string, shown: Row[], at: number, isFolded: boolean): Row | undefined {
  const row = shown[at];
  if (key === "ArrowDown") return shown[at + 1];
  if (key === "ArrowUp") return shown[at - 1];
  if (key === "Home") return shown[0];
  if (key === "End") return shown.at(-1);
  if (key === "ArrowRight" && row?.below && !isFolded) return shown[at + 1];
  if (key === "ArrowLeft") return row?.parent ?? undefined;
  return undefined;
}

export function Waterfall({ id, rows, shown, folded, onFold, chosen, onChoose, goal }: Props): VNode {
  const { box, isNarrow, room } = useWidths();
  const now = useEnd(rows);
  const work = useMemo(() => workOf(rows), [rows]);
  const axis = useMemo(() => axisOf(work, rows[0]!.span.started_at, now, room), [work, now, room]);
  const [here, setHere] = useState<{ id: string; isNew: boolean } | null>(null);
  useEffect(() => {
    if (goal) setHere({ id: goal.id, isNew: true });
  }, [goal]);
  const found = shown.findIndex((row) => row.span.span_id === here?.id);
  const at = Math.max(0, found);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = shown[at];
    const isFolded = row !== undefined && folded.has(row.span.span_id);
    if (event.key === "Escape") onChoose(null);
    // The row that the keys led to may be drawn, and have the focus, only in the next moment.
    else if (event.key === "Enter" && row && (event.target as Element).matches(".name, .spans")) onChoose(row.span.span_id);
    else if (row?.below && ((event.key === "ArrowRight" && isFolded) || (event.key === "ArrowLeft" && !isFolded))) onFold(row);
    else {
      const next = nextRow(event.key, shown, at, isFolded);
      if (!next) return;
      setHere({ id: next.span.span_id, isNew: true });
    }
    event.preventDefault();
  };
  return (
    <div class="waterfall" ref={box} style={{ "--breaks": picture(axis) } as Record<string, string>} onKeyDown={onKeyDown}>
      <div class="span-row trace-head">
        <span class="what">{t("trace.span")}</span>
        <span class="agent-of">{t("common.agent")}</span>
        <span class="number">{t("trace.tokens")}</span>
        <span class="number">{t("trace.cost")}</span>
        <span class="number">{t("trace.took")}</span>
        <Scale axis={axis} room={room} />
      </div>
      <LongList
        class="spans"
        items={shown}
        rowHeight={isNarrow ? 50 : 32}
        label={t("trace.spans")}
        keyOf={(row) => row.span.span_id}
        reveal={found < 0 ? undefined : found}
        row={(row, index) => (
          <SpanRow
            row={row}
            axis={axis}
            now={now}
            home={id}
            isFolded={folded.has(row.span.span_id)}
            isChosen={row.span.span_id === chosen}
            isHere={index === at}
            takesFocus={here?.isNew === true && here.id === row.span.span_id}
            onFocused={() => setHere({ id: row.span.span_id, isNew: false })}
            onFold={onFold}
            onChoose={(each) => {
              setHere({ id: each.span.span_id, isNew: false });
              onChoose(each.span.span_id);
            }}
          />
        )}
      />
    </div>
  );
}
