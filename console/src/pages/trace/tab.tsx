/** What happened in a session, as it happens: a waterfall of spans, errors first. */
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { part } from "../../api/http";
import type { SessionTrace } from "../../api/types";
import { useShortcuts } from "../../lib/keys";
import { useLive, useResource, useThrottled } from "../../lib/resource";
import { adjust, type Route } from "../../lib/router";
import { duration } from "../../lib/time";
import { named, t } from "../../lib/words";
import { Empty, Pending } from "../../ui/basics";
import { Typed } from "../../ui/filtering";
import { costText, tokensText, unpricedText } from "./amounts";
import { Details } from "./details";
import { Problems } from "./problems";
import { LookBadge } from "../../ui/state";
import { above, rowsOf, shownRows, type Row } from "./tree";
import { Waterfall } from "./waterfall";

/** A long trace takes longer to read anew. */
const reloadMs = (trace: SessionTrace | null): number => Math.max(1000, trace?.spans.length ?? 0);

const MOST_FOLLOWED = 100;

export function TraceTab({ id, route }: { id: string; route: Route }): VNode {
  const trace = useResource<SessionTrace>(`/traces/${part(id)}`, { errors: true });
  const later = useThrottled(trace.reload, reloadMs(trace.data));
  const sessions = new Set([id, ...(trace.data?.spans ?? []).map((span) => span.session_id)]);
  useLive({ sessions: [...sessions].slice(0, MOST_FOLLOWED) }, later, later);
  const rows = useMemo(() => (trace.data ? rowsOf(trace.data) : []), [trace.data]);
  if (!trace.data) return <Pending of={trace} />;
  if (rows.length < 2) return <Empty>{t("trace.nothing")}</Empty>;
  return <Shown id={id} trace={trace.data} rows={rows} route={route} />;
}

function Summary({ trace, rows }: { trace: SessionTrace; rows: Row[] }): VNode {
  const root = rows[0]!;
  return (
    <p class="row trace-summary">
      <LookBadge look={root.look} />
      <span>{t("trace.n_spans", { n: rows.length })}</span>
      {root.span.duration_ms !== undefined && <span>{duration(root.span.duration_ms ?? 0)}</span>}
      {trace.tokens.total_tokens !== undefined && <span>{tokensText(trace.tokens)}</span>}
      {trace.cost !== null && <span>{costText(trace.cost, trace.unpriced_requests)}</span>}
      {trace.unpriced_requests > 0 && <span class="muted">{unpricedText(trace.unpriced_requests)}</span>}
    </p>
  );
}

/** Which rows the filter wants; none: all that is not folded. */
function wantedBy(text: string): ((row: Row) => boolean) | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length) return null;
  return ({ span, look }) => {
    const told = [span.name, span.kind, named("trace", `kind_${span.kind}`), t(look[1]), span.agent_name, span.error, span.session_id];
    const whole = told.join(" ").toLowerCase();
    return words.every((word) => whole.includes(word));
  };
}

function Filter({ text }: { text: string }): VNode {
  const field = useRef<HTMLInputElement>(null);
  useShortcuts([{ key: "/", word: "trace.filter", run: () => field.current?.focus() }]);
  return (
    <div class="filters">
      <Typed name="q" label={t("trace.filter")} value={text} input={field} />
      <span class="muted key-hint">{t("trace.keys")}</span>
    </div>
  );
}

interface ShownProps {
  id: string;
  trace: SessionTrace;
  rows: Row[];
  route: Route;
}

function Shown({ id, trace, rows, route }: ShownProps): VNode {
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [goal, setGoal] = useState<{ id: string } | null>(null);
  const text = route.query.get("q") ?? "";
  const chosen = route.query.get("span");
  const byId = useMemo(() => new Map(rows.map((row) => [row.span.span_id, row])), [rows]);
  const shown = useMemo(() => shownRows(rows, folded, wantedBy(text)), [rows, folded, text]);
  const row = chosen ? byId.get(chosen) : undefined;
  const jump = (spanId: string): void => {
    const target = byId.get(spanId);
    if (!target) return;
    const isHidden = !shown.includes(target);
    setFolded((old) => new Set([...old].filter((each) => !above(target).includes(each))));
    adjust({ span: spanId, ...(isHidden ? { q: null } : {}) });
    setGoal({ id: spanId });
  };
  // The address names a span that the page did not choose itself: it was opened, or went back.
  const asked = useRef<string | null>(null);
  useEffect(() => {
    if (row && chosen && asked.current !== chosen && !document.querySelector(`[data-span="${CSS.escape(chosen)}"] :focus`)) jump(chosen);
    if (row || !chosen) asked.current = chosen;
  }, [chosen, row === undefined]);
  const onFold = ({ span }: Row): void => {
    const next = new Set(folded);
    if (!next.delete(span.span_id)) next.add(span.span_id);
    setFolded(next);
  };
  const rowsFor = (ids: string[]): Row[] => ids.map((each) => byId.get(each)).filter((each) => each !== undefined);
  // What was withdrawn, or expired, did not go wrong.
  const wrong = rowsFor(trace.errors).filter((each) => each.look[0] === "bad");
  return (
    <>
      <Summary trace={trace} rows={rows} />
      <Problems title={t("trace.errors", { n: wrong.length })} tone="bad" rows={wrong} jump={jump} />
      <Problems title={t("trace.waits", { n: trace.waits.length })} tone="wait" rows={rowsFor(trace.waits)} jump={jump} />
      <Filter text={text} />
      {chosen && !row && <p class="notice wait" role="status">{t("trace.no_span")}</p>}
      {shown.length ? (
        <div class={row ? "trace-parts with-details" : "trace-parts"}>
          <Waterfall id={id} rows={rows} shown={shown} folded={folded} onFold={onFold} chosen={chosen} onChoose={(span) => adjust({ span })} goal={goal} />
          {row && <Details id={id} row={row} rows={rows} onClose={() => (adjust({ span: null }), setGoal({ id: row.span.span_id }))} />}
        </div>
      ) : (
        <Empty>{t("trace.none_found")}</Empty>
      )}
    </>
  );
}
