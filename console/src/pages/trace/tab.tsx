/** What happened in a session, as it happens: a waterfall of spans, errors first. */
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { part } from "../../api/http";
import type { TraceModel } from "../../api/types";
import { useShortcuts } from "../../lib/keys";
import { useLive, useResource, useThrottled } from "../../lib/resource";
import { adjust, type Route } from "../../lib/router";
import { duration } from "../../lib/time";
import { named, t } from "../../lib/words";
import { Badge, Empty, ErrorBox, Loading } from "../../ui/basics";
import { costText, tokensText, unpricedText } from "./amounts";
import { Details } from "./details";
import { Problems } from "./problems";
import { above, rowsOf, shownRows, TONES, type Row } from "./tree";
import { Waterfall } from "./waterfall";

/** A long trace takes longer to read anew. */
const reloadMs = (trace: TraceModel | null): number => Math.max(1000, trace?.spans.length ?? 0);

const MOST_FOLLOWED = 100;

export function TraceTab({ id, route }: { id: string; route: Route }): VNode {
  const trace = useResource<TraceModel>(`/traces/${part(id)}`);
  const later = useThrottled(trace.reload, reloadMs(trace.data));
  const sessions = new Set([id, ...(trace.data?.spans ?? []).map((span) => span.session_id)]);
  useLive({ sessions: [...sessions].slice(0, MOST_FOLLOWED) }, later, later);
  const rows = useMemo(() => (trace.data ? rowsOf(trace.data) : []), [trace.data]);
  if (!trace.data) return trace.error ? <ErrorBox error={trace.error} retry={trace.reload} /> : <Loading />;
  if (rows.length < 2) return <Empty>{t("trace.nothing")}</Empty>;
  return <Shown id={id} trace={trace.data} rows={rows} route={route} />;
}

function Summary({ trace, rows }: { trace: TraceModel; rows: Row[] }): VNode {
  const root = rows[0]!;
  return (
    <p class="row trace-summary">
      <Badge tone={TONES[root.state]}>{named("trace", root.state)}</Badge>
      <span>{t("trace.n_spans", { n: rows.length })}</span>
      {root.span.duration_ms !== undefined && <span>{duration(root.span.duration_ms ?? 0)}</span>}
      {trace.tokens.total_tokens !== undefined && <span>{tokensText(trace.tokens)}</span>}
      {trace.cost !== null && <span>{costText(trace.cost, trace.unpriced_requests)}</span>}
      {trace.unpriced_requests > 0 && <span class="muted">{unpricedText(trace.unpriced_requests)}</span>}
    </p>
  );
}

/** Which rows the filter and the box want; none: all that is not folded. */
function wantedBy(text: string, onlyErrors: boolean): ((row: Row) => boolean) | null {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && !onlyErrors) return null;
  return ({ span, state }) => {
    if (onlyErrors && state !== "error") return false;
    const told = [span.name, span.kind, named("trace", `kind_${span.kind}`), span.agent_name, span.error, span.session_id];
    const whole = told.join(" ").toLowerCase();
    return words.every((word) => whole.includes(word));
  };
}

interface FilterProps {
  text: string;
  onlyErrors: boolean;
  isFolded: boolean;
  foldAll: (isFolded: boolean) => void;
}

function Filter({ text, onlyErrors, isFolded, foldAll }: FilterProps): VNode {
  const field = useRef<HTMLInputElement>(null);
  useShortcuts([
    { key: "/", word: "trace.filter", run: () => field.current?.focus() },
    { key: "e", word: "trace.only_errors", run: () => adjust({ only: onlyErrors ? null : "errors" }) },
  ]);
  return (
    <div class="filters">
      <label>
        {t("trace.filter")}
        <br />
        <input ref={field} type="search" value={text} onInput={(event) => adjust({ q: event.currentTarget.value })} />
      </label>
      <label class="check">
        <input type="checkbox" checked={onlyErrors} onChange={() => adjust({ only: onlyErrors ? null : "errors" })} />{" "}
        {t("trace.only_errors")}
      </label>
      <button type="button" onClick={() => foldAll(!isFolded)}>
        {t(isFolded ? "trace.unfold_all" : "trace.fold_all")}
      </button>
      <span class="muted key-hint">{t("trace.keys")}</span>
    </div>
  );
}

interface ShownProps {
  id: string;
  trace: TraceModel;
  rows: Row[];
  route: Route;
}

function Shown({ id, trace, rows, route }: ShownProps): VNode {
  const [folded, setFolded] = useState<ReadonlySet<string>>(new Set());
  const [goal, setGoal] = useState<{ id: string } | null>(null);
  const text = route.query.get("q") ?? "";
  const onlyErrors = route.query.get("only") === "errors";
  const chosen = route.query.get("span");
  const byId = useMemo(() => new Map(rows.map((row) => [row.span.span_id, row])), [rows]);
  const shown = useMemo(() => shownRows(rows, folded, wantedBy(text, onlyErrors)), [rows, folded, text, onlyErrors]);
  const row = chosen ? byId.get(chosen) : undefined;
  const jump = (spanId: string): void => {
    const target = byId.get(spanId);
    if (!target) return;
    const isHidden = !shown.includes(target);
    setFolded((old) => new Set([...old].filter((each) => !above(target).includes(each))));
    adjust({ span: spanId, ...(isHidden ? { q: null, only: null } : {}) });
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
  const foldAll = (isFolded: boolean): void =>
    setFolded(new Set(isFolded ? rows.filter((each) => each.below && each.depth > 0).map((each) => each.span.span_id) : []));
  const rowsFor = (ids: string[]): Row[] => ids.map((each) => byId.get(each)).filter((each) => each !== undefined);
  return (
    <>
      <Summary trace={trace} rows={rows} />
      <Problems title={t("trace.errors", { n: trace.errors.length })} tone="bad" rows={rowsFor(trace.errors)} jump={jump} />
      <Problems title={t("trace.waits", { n: trace.waits.length })} tone="wait" rows={rowsFor(trace.waits)} jump={jump} />
      <Filter text={text} onlyErrors={onlyErrors} isFolded={folded.size > 0} foldAll={foldAll} />
      {chosen && !row && <p class="notice wait" role="status">{t("trace.no_span")}</p>}
      {shown.length ? (
        <div class={row ? "trace-parts with-details" : "trace-parts"}>
          <Waterfall id={id} rows={rows} shown={shown} folded={folded} onFold={onFold} chosen={chosen} onChoose={(span) => adjust({ span })} goal={goal} />
          {row && <Details id={id} row={row} rows={rows} jump={jump} onClose={() => (adjust({ span: null }), setGoal({ id: row.span.span_id }))} />}
        </div>
      ) : (
        <Empty>{t("trace.none_found")}</Empty>
      )}
    </>
  );
}
