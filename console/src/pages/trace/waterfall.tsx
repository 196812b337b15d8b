/** The rows of a trace under one axis of time, and the keyboard in them. */
import type { VNode } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { useNow } from "../../lib/time";
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

/** The end of the axis: it moves while something goes on. */
function useEnd(rows: Row[]): number {
  const now = useNow();
  const ends = useMemo(() => rows.map(({ span }) => span.ended_at ?? Infinity), [rows]);
  const last = ends.reduce((most, end) => Math.max(most, end), 0);
  return last === Infinity ? now : last;
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

function Scale({ axis }: { axis: Axis }): VNode {
  return (
    <span class="scale">
      {axis.breaks.map(({ at, label }, index) => {
        const words = t("trace.break", { time: label });
        return (
          <span key={at} class="break" role="img" aria-label={words} title={words} style={{ left: percent(at), width: percent((axis.breaks[index + 1]?.at ?? 1) - at) }}>
            ⋯ {label}
          </span>
        );
      })}
      {axis.ticks.map(({ at, width, label }) => (
        <span key={at} class="tick" aria-hidden="true" style={{ left: percent(at), width: percent(width) }}>
          {label}
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
  const now = useEnd(rows);
  const work = useMemo(() => workOf(rows), [rows]);
  const axis = useMemo(() => axisOf(work, rows[0]!.span.started_at, now), [work, now]);
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
    <div class="waterfall" style={{ "--breaks": picture(axis) } as Record<string, string>} onKeyDown={onKeyDown}>
      <div class="span-row trace-head">
        <span class="what">{t("trace.span")}</span>
        <span class="agent-of">{t("common.agent")}</span>
        <span class="number">{t("trace.tokens")}</span>
        <span class="number">{t("trace.cost")}</span>
        <span class="number">{t("trace.took")}</span>
        <Scale axis={axis} />
      </div>
      <LongList
        class="spans"
        items={shown}
        rowHeight={32}
        narrowHeight={50}
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
