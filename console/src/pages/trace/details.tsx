/** Everything about the span that was chosen. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { part, type Page } from "../../api/http";
import type { TraceSpan } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Code } from "../../lib/markdown";
import { link } from "../../lib/router";
import { useResource } from "../../lib/resource";
import { duration, exact, Moment } from "../../lib/time";
import { named, t } from "../../lib/words";
import { Empty, Facts, Pending, PlainLink, pretty, word } from "../../ui/basics";
import { costText, tokensText, unpricedText } from "./amounts";
import { LookBadge } from "../../ui/state";
import type { Row } from "./tree";

interface Props {
  /** The session whose trace it is. */
  id: string;
  row: Row;
  rows: Row[];
}

/** The span after the one that stands before it: one, not the whole trace, comes with its words. */
function Content({ id, row, rows }: Props): VNode {
  const before = rows[row.at - 1]?.span.span_id;
  const found = useResource<Page<TraceSpan>>(`/traces/${part(id)}/spans`, { content: true, limit: 5, cursor: before });
  if (!found.data) return <Pending of={found} />;
  const said = found.data.items.find((each) => each.span_id === row.span.span_id);
  // What an error says may be content: without it only its kind is told.
  const error = said?.error === row.span.error ? null : said?.error;
  const content = { ...(error ? { error } : {}), ...said?.content };
  if (!Object.keys(content).length) return <Empty>{t("trace.no_content")}</Empty>;
  return (
    <>
      {Object.entries(content).map(([name, value]) => (
        <div key={name}>
          <h4>
            <Plain text={named("trace", `said_${name}`).replace(/^said_/, "")} />
          </h4>
          <Code text={pretty(value)} />
        </div>
      ))}
    </>
  );
}

/** A way to another span of the trace, or what is known of one that is elsewhere. */
function SpanLink({ id, home, rows }: { id: string; home: string; rows: Row[] }): VNode {
  const target = rows.find((each) => each.span.span_id === id);
  return target ? <PlainLink to={["sessions", home, "trace"]} query={{ span: id }} text={`→ ${target.span.name}`} /> : <code>{id}</code>;
}

function SpanFacts({ id: home, row, rows }: Props): VNode {
  const { span } = row;
  return (
    <Facts
      rows={[
        [t("common.agent"), span.agent_name && <PlainLink to={["agents", span.agent_name]} text={span.agent_name} />],
        [t("trace.began"), <>{exact(span.started_at)} · <Moment at={span.started_at} /></>],
        [t("trace.took"), span.duration_ms === undefined || span.duration_ms === null ? t("trace.goes_on") : span.duration_ms > 0 && duration(span.duration_ms)],
        [t("trace.own_tokens"), tokensText(span.tokens)],
        [t("trace.all_tokens"), tokensText(span.total_tokens)],
        [t("trace.cost"), [costText(span.total_cost, span.unpriced_requests), unpricedText(span.unpriced_requests)].filter(Boolean).join(" · ")],
        [t("trace.try"), row.attempt > 1 && row.attempt],
        [t("common.session"), <PlainLink to={["sessions", span.session_id, ...(span.session_id === home ? [] : ["trace"])]} text={span.session_id} />],
        [t("trace.links"), !!span.links?.length && span.links.map((id) => <SpanLink id={id} home={home} rows={rows} />)],
        [t("trace.span"), <code>{span.span_id}</code>],
        ...Object.entries(span.details ?? {}).map(([name, value]): [string, VNode] => [
          name,
          name === "item" ? <a href={link(["inbox", String(value)])}>{t("trace.in_inbox")}</a> : <Plain text={word(value)} />,
        ]),
      ]}
    />
  );
}

export function Details({ onClose, ...props }: Props & { onClose: () => void }): VNode {
  const { span, look } = props.row;
  const [shown, setShown] = useState("");
  return (
    <section class="card span-details" aria-label={t("trace.details")}>
      <header class="row spread">
        <h3>
          <Plain text={span.name} />
        </h3>
        <button type="button" class="quiet" aria-label={t("common.close")} onClick={onClose}>
          ✕
        </button>
      </header>
      <p>
        <LookBadge look={look} /> {named("trace", `kind_${span.kind}`)}
      </p>
      {span.error && (
        <div class="notice bad">
          <Code text={span.error} />
        </div>
      )}
      <SpanFacts {...props} />
      {shown === span.span_id ? (
        <Content key={shown} {...props} />
      ) : (
        <button type="button" onClick={() => setShown(span.span_id)}>
          {t("trace.show_content")}
        </button>
      )}
    </section>
  );
}
