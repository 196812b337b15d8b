/** Everything about the span that was chosen. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { part, type Page } from "../../api/http";
import type { SpanModel } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Code } from "../../lib/markdown";
import { link } from "../../lib/router";
import { useResource } from "../../lib/resource";
import { duration, exact, Moment } from "../../lib/time";
import { named, t } from "../../lib/words";
import { Badge, Empty, ErrorBox, Facts, Loading, pretty } from "../../ui/basics";
import { attempt, say } from "../../ui/toasts";
import { costText, tokensText, unpricedText } from "./amounts";
import { TONES, type Row } from "./tree";

interface Props {
  id: string;
  row: Row;
  rows: Row[];
  jump: (spanId: string) => void;
  onClose: () => void;
}

/** The span after the one that stands before it: one, not the whole trace, comes with its words. */
function Content({ id, row, rows }: { id: string; row: Row; rows: Row[] }): VNode {
  const before = rows[row.at - 1]?.span.span_id;
  const found = useResource<Page<SpanModel>>(`/traces/${part(id)}/spans`, { content: true, limit: 5, cursor: before });
  if (found.error) return <ErrorBox error={found.error} retry={found.reload} />;
  if (!found.data) return <Loading />;
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

function Links({ row, rows, jump }: Props): VNode | null {
  if (!row.span.links?.length) return null;
  return (
    <>
      <h4>{t("trace.links")}</h4>
      <ul class="plain">
        {row.span.links.map((id) => {
          const target = rows.find((each) => each.span.span_id === id);
          return (
            <li key={id}>
              {target ? (
                <button type="button" class="quiet" onClick={() => jump(id)}>
                  → <Plain text={target.span.name} /> <small>{named("trace", `kind_${target.span.kind}`)}</small>
                </button>
              ) : (
                <code>{id}</code>
              )}
            </li>
          );
        })}
      </ul>
    </>
  );
}

const inOneLine = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value));

async function copyLink(): Promise<void> {
  // Browsers have no clipboard for pages that came over plain HTTP from elsewhere.
  if (!navigator.clipboard) say(location.href);
  else await attempt(() => navigator.clipboard.writeText(location.href), t("trace.copied"));
}

function factsOf(row: Row, home: string): VNode {
  const { span } = row;
  return (
    <Facts
      rows={[
        [t("common.agent"), span.agent_name && <a href={link(["agents", span.agent_name])}><Plain text={span.agent_name} /></a>],
        [t("trace.began"), <>{exact(span.started_at)} · <Moment at={span.started_at} /></>],
        [t("trace.took"), span.duration_ms === undefined || span.duration_ms === null ? t("trace.goes_on") : duration(span.duration_ms)],
        [t("trace.own_tokens"), tokensText(span.tokens)],
        [t("trace.all_tokens"), tokensText(span.total_tokens)],
        [t("trace.cost"), [costText(span.total_cost, span.unpriced_requests), unpricedText(span.unpriced_requests)].filter(Boolean).join(" · ")],
        [t("trace.try"), row.attempt > 1 && row.attempt],
        [t("common.session"), <a href={link(["sessions", span.session_id, ...(span.session_id === home ? [] : ["trace"])])}><Plain text={span.session_id} /></a>],
        [t("trace.span"), <code>{span.span_id}</code>],
        ...Object.entries(span.details ?? {}).map(([name, value]): [string, VNode] => [
          name,
          name === "item" ? <a href={link(["inbox", String(value)])}>{t("trace.in_inbox")}</a> : <Plain text={inOneLine(value)} />,
        ]),
      ]}
    />
  );
}

export function Details(props: Props): VNode {
  const { row, id, rows, onClose } = props;
  const { span } = row;
  const [shown, setShown] = useState<string | null>(null);
  return (
    <section class="card span-details" aria-label={t("trace.details")}>
      <header class="row spread">
        <h3>
          <Plain text={span.name} />
        </h3>
        <span class="row">
          <button type="button" onClick={() => void copyLink()}>
            {t("trace.copy")}
          </button>
          <button type="button" class="quiet" aria-label={t("common.close")} onClick={onClose}>
            ✕
          </button>
        </span>
      </header>
      <p>
        <Badge tone={TONES[row.state]}>{named("trace", row.state)}</Badge> {named("trace", `kind_${span.kind}`)}
      </p>
      {span.error && (
        <div class="notice bad">
          <Code text={span.error} />
        </div>
      )}
      {factsOf(row, id)}
      <Links {...props} />
      {shown === span.span_id ? (
        <Content key={span.span_id} id={id} row={row} rows={rows} />
      ) : (
        <button type="button" onClick={() => setShown(span.span_id)}>
          {t("trace.show_content")}
        </button>
      )}
    </section>
  );
}
