/** Everything about one handoff. */
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { part, type Page } from "../../api/http";
import type { HandoffMove, ShownItem } from "../../api/types";
import { Part } from "../../graph/choice";
import { Plain } from "../../lib/hidden";
import { Code, Markdown } from "../../lib/markdown";
import { useResource } from "../../lib/resource";
import { link } from "../../lib/router";
import { duration, exact, Moment } from "../../lib/time";
import { named, t, type Word } from "../../lib/words";
import { ErrorBox, Facts, Loading, pretty } from "../../ui/basics";
import { HANDOFFS, LookBadge } from "../../ui/state";
import type { Handoff } from "./relay";

export function StatusBadge({ handoff }: { handoff: Handoff }): VNode {
  return <LookBadge look={HANDOFFS[handoff.status]} />;
}

const FATES: [ShownItem["fate"], string, Word][] = [
  ["kept", "✓", "graph.n_kept"],
  ["summarised", "≈", "graph.n_summarised"],
  ["dropped", "✕", "graph.n_dropped"],
  ["added", "+", "graph.n_added"],
];

function Entry({ entry }: { entry: ShownItem }): VNode {
  const sign = FATES.find(([fate]) => fate === entry.fate)?.[1];
  return (
    <li class={`fate ${entry.fate}`}>
      <span class="fate-name">
        <span aria-hidden="true">{sign}</span> {named("graph", entry.fate)}
        {entry.changed && `, ${t("graph.changed")}`}
      </span>{" "}
      <span class="muted">
        {named("graph", `role_${entry.role}`)}
        {entry.agent && (
          <>
            {" · "}
            <Plain text={entry.agent} />
          </>
        )}
      </span>
      <div class="fate-text">{entry.text ? <Plain text={entry.text} /> : <span class="muted">{t("graph.not_shown")}</span>}</div>
    </li>
  );
}

/** What the target was shown of the conversation, and what not; `at` is the handoff's place among those of the session. */
function Shown({ handoff, at }: { handoff: Handoff; at: number }): VNode {
  const found = useResource<Page<Handoff>>(`/sessions/${part(handoff.session_id)}/handoffs`, { limit: 1, cursor: at });
  const moves = handoff.moves.length;
  const isFirst = useRef(true);
  useEffect(() => {
    if (!isFirst.current) found.reload();
    isFirst.current = false;
  }, [moves]);
  const view = found.data?.items[0]?.view;
  if (found.error) return <ErrorBox error={found.error} retry={found.reload} />;
  if (!view) return <Loading />;
  const added = view.entries.filter((entry) => entry.fate === "added").length;
  if (!view.entries.length) return <p class="muted">{t("graph.nothing_shown")}</p>;
  return (
    <>
      <p class="row counts">
        {FATES.map(([fate, sign, word]) => {
          const n = fate === "added" ? added : view[fate];
          if (fate === "added" && !n) return null;
          return (
            <span key={fate} class={`fate ${fate}`}>
              <span aria-hidden="true">{sign}</span> {t(word, { n })}
            </span>
          );
        })}
      </p>
      <div class="fates" tabIndex={0} role="group" aria-label={t("graph.handed_over")}>
        <ol>
          {view.entries.map((entry, at) => (
            <Entry key={at} entry={entry} />
          ))}
        </ol>
      </div>
      {view.more > 0 && <p class="muted">{t("graph.n_more", { n: view.more })}</p>}
    </>
  );
}

function Moves({ moves }: { moves: HandoffMove[] }): VNode {
  return (
    <ol class="moves">
      {moves.map((move, at) => {
        const before = moves[at - 1];
        return (
          <li key={at}>
            {t(HANDOFFS[move.status][1])} <time title={exact(move.at)}>{exact(move.at).slice(11)}</time>
            {before && move.at - before.at >= 0.001 && <span class="muted"> +{duration((move.at - before.at) * 1000)}</span>}
          </li>
        );
      })}
    </ol>
  );
}

const names = (list: string[] | undefined): VNode | false =>
  !!list?.length && (
    <ul>
      {list.map((name) => (
        <li key={name}>
          <Plain text={name} />
        </li>
      ))}
    </ul>
  );

export function HandoffDetails({ handoff, at }: { handoff: Handoff; at: number }): VNode {
  const { by, error, code } = handoff;
  return (
    <>
      {handoff.rewound && <p class="notice wait">{t("graph.rewound")}</p>}
      {(error || code) && (
        <div class="notice bad">
          <p>
            {code && <code>{code}</code>} {error && <Plain text={error} />}
          </p>
        </div>
      )}
      <Facts
        rows={[
          [t("common.status"), <StatusBadge handoff={handoff} />],
          [t("graph.wanted_by"), <><span>{named("graph", `by_${by.kind}`)}</span>{by.name && <> · <Plain text={by.name} /></>}</>],
          [t("graph.policy"), named("graph", handoff.policy)],
          [t("graph.duration"), handoff.duration_ms !== null && handoff.status !== "failed" && duration(handoff.duration_ms)],
          [t("graph.began"), <Moment at={handoff.started_at} />],
          [t("common.reason"), handoff.reason && <Plain text={handoff.reason} />],
        ]}
      />
      <Part word="graph.moves">
        <Moves moves={handoff.moves} />
      </Part>
      <Part word="graph.compensated">{names(handoff.compensated)}</Part>
      <Part word="graph.not_compensated">{names(handoff.not_compensated)}</Part>
      <Part word="graph.summary">{handoff.summary && <Markdown text={handoff.summary} />}</Part>
      <Part word="graph.handed_over">
        <Shown handoff={handoff} at={at} />
      </Part>
      <Part word="graph.trigger">{handoff.trigger && <Code text={pretty(handoff.trigger)} />}</Part>
      <Part word="graph.evaluation">{handoff.evaluation && <Code text={pretty(handoff.evaluation)} />}</Part>
      <p>
        <a href={link(["audit"], { record: handoff.id })}>{t("graph.audit")}</a>
      </p>
    </>
  );
}
