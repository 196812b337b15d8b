/** One span: its place in the tree, what it used, and when it was. */
import type { VNode } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { Plain } from "../../lib/hidden";
import { link } from "../../lib/router";
import { duration } from "../../lib/time";
import { named, t } from "../../lib/words";
import { SIGNS } from "../../ui/basics";
import { HANDOFFS, QUESTIONS, SPANS } from "../../ui/state";
import { costText, few, tokensText, unpricedText } from "./amounts";
import type { Axis } from "./axis";
import type { Row } from "./tree";

const DEEPEST = 14;

interface Props {
  row: Row;
  axis: Axis;
  now: number;
  /** The session whose trace it is. */
  home: string;
  isFolded: boolean;
  isChosen: boolean;
  /** Where the keyboard is. */
  isHere: boolean;
  takesFocus: boolean;
  onFocused: () => void;
  onFold: (row: Row) => void;
  onChoose: (row: Row) => void;
}

export function marks(row: Row): string[] {
  const { details, kind } = row.span;
  const found = [
    row.attempt > 1 && t("trace.attempt", { n: row.attempt }),
    details?.resumes !== undefined && t("trace.resumed"),
    details?.undone !== undefined && t("trace.undone"),
    row.look !== SPANS.ok && row.look !== SPANS.error && row.look !== SPANS.running && row.look !== HANDOFFS.completed && row.look !== QUESTIONS.answered && kind !== "session" && t(row.look[1]).toLowerCase(),
  ].filter((each) => typeof each === "string" && each !== "") as string[];
  return [...new Set(found)];
}

function Bar({ row, axis, now }: { row: Row; axis: Axis; now: number }): VNode {
  const { started_at: from, ended_at: to, kind } = row.span;
  const left = axis.place(from);
  const width = axis.place(to ?? Math.max(now, from)) - left;
  return (
    <span class="lane" aria-hidden="true">
      <span class={`bar ${kind} ${row.look[0] === "bad" ? "error" : row.state === "error" ? "over" : row.state} ${row.span.details?.asks ? "asks" : ""}`} style={{ left: `${left * 100}%`, width: `${width * 100}%` }} />
    </span>
  );
}

export function SpanRow(props: Props): VNode {
  const { row, home, isFolded, isChosen } = props;
  const { span } = row;
  const button = useRef<HTMLButtonElement>(null);
  useLayoutEffect(() => {
    if (!props.takesFocus) return;
    button.current?.focus();
    props.onFocused();
  }, [props.takesFocus]);
  const took = span.ended_at === null ? Math.max(0, props.now - span.started_at) * 1000 : (span.duration_ms ?? 0);
  const isElsewhere = span.kind === "session" && span.session_id !== home;
  return (
    <div class={`span-row ${isChosen ? "chosen" : ""} ${span.details?.undone === undefined ? "" : "undone"}`} data-span={span.span_id}>
      <span class="what" style={{ "--depth": Math.min(row.depth, DEEPEST) } as Record<string, number>}>
        {row.below > 0 ? (
          <button
            type="button"
            class="quiet fold"
            tabIndex={-1}
            aria-expanded={!isFolded}
            aria-label={t("trace.below", { n: row.below, name: span.name })}
            onClick={() => props.onFold(row)}
          >
            {isFolded ? "▸" : "▾"}
          </button>
        ) : (
          <span class="fold" />
        )}
        <button
          type="button"
          ref={button}
          class="quiet name"
          tabIndex={props.isHere ? 0 : -1}
          aria-pressed={isChosen}
          onClick={() => props.onChoose(row)}
        >
          <span class={`sign ${row.look[0]}`} aria-hidden="true">
            {SIGNS[row.look[0]]}
          </span>
          <span class="hidden">{`${t("trace.level", { n: row.depth + 1 })}, ${t(row.look[1])}: `}</span>
          <Plain text={span.name} /> <small>{named("trace", `kind_${span.kind}`)}</small>
          {marks(row).map((mark) => (
            <em key={mark}>{mark}</em>
          ))}
        </button>
        {isElsewhere && (
          <a href={link(["sessions", span.session_id, "trace"])} tabIndex={-1} title={t("trace.open_session")} aria-label={`${t("trace.open_session")} ${span.session_id}`}>
            ↗
          </a>
        )}
      </span>
      <span class="agent-of">{span.agent_name && span.kind !== "agent" && <Plain text={span.agent_name} />}</span>
      <span class="number" title={tokensText(span.total_tokens)}>{span.total_tokens?.total_tokens ? few(span.total_tokens.total_tokens) : ""}</span>
      <span class="number" title={unpricedText(span.unpriced_requests)}>{costText(span.total_cost, span.unpriced_requests)}</span>
      <span class="number">{took > 0 && duration(took)}</span>
      <Bar row={row} axis={props.axis} now={props.now} />
    </div>
  );
}
