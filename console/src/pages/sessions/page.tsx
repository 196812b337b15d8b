/** All sessions, newest first: how each stands now, and what was said in them. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { SessionSummary } from "../../api/types";
import { useLive, usePages, useThrottled } from "../../lib/resource";
import type { Route } from "../../lib/router";
import { t } from "../../lib/words";
import { useMay } from "../../session";
import { Empty, More, Pending } from "../../ui/basics";
import { LongList } from "../../ui/long_list";
import { TURNS } from "../session/turns";
import { Begin } from "./begin";
import { chosenIn, Filters, useAgentNames, type Chosen } from "./filters";
import { Hits } from "./hits";
import { SessionRow } from "./row";

const PAGE = 100;
const FEW = 250;
/** How often a short and a long list are read anew while things happen. */
const OFTEN_MS = 1000;
const SELDOM_MS = 3000;
/** The lease of a run ends a little after its last event. */
const SETTLED_MS = 2500;
const keyOf = (session: SessionSummary): string => session.session_id;
const rowOf = (session: SessionSummary): VNode => <SessionRow session={session} />;

function List({ chosen }: { chosen: Chosen }): VNode {
  const { states, conclusion, agent, user, text } = chosen;
  const found = usePages<SessionSummary>("/sessions", { state: states, conclusion, agent, user, text }, PAGE);
  const isFiltered = states.length > 0 || !!text;
  const often = isFiltered || (found.data?.length ?? 0) > FEW ? SELDOM_MS : OFTEN_MS;
  const soon = useThrottled(found.reload, often);
  const settled = useThrottled(found.reload, often + SETTLED_MS);
  useLive({ types: TURNS }, () => (soon(), settled()), soon);
  const list = found.data;
  if (!list) return <Pending of={found} />;
  if (!list.length && !found.more) {
    const isAll = !isFiltered && !conclusion && !agent && !user;
    return <Empty>{t(isAll ? "sessions.none" : text ? "sessions.none_named" : "sessions.none_found")}</Empty>;
  }
  return (
    <>
      <p class="muted" role="status">
        {t(found.more || found.isLoadingMore ? "sessions.count_more" : "sessions.count", { n: list.length })}
      </p>
      <LongList items={list} rowHeight={54} narrowHeight={92} label={t("sessions.list")} row={rowOf} keyOf={keyOf} class="sessions" />
      <More more={found.more} busy={found.isLoadingMore} />
    </>
  );
}

export function SessionsPage({ route }: { route: Route }): VNode {
  const chosen = chosenIn(route);
  const agents = useAgentNames();
  const mayRun = useMay("run");
  const [isNew, setNew] = useState(false);
  return (
    <>
      <div class="row spread">
        <h1>{t("common.sessions")}</h1>
        {mayRun && (
          <button type="button" class="primary" onClick={() => setNew(true)}>
            {t("sessions.new")}
          </button>
        )}
      </div>
      <Filters chosen={chosen} agents={agents} />
      {chosen.text && <Hits text={chosen.text} user={chosen.user} />}
      <List chosen={chosen} />
      {isNew && <Begin agents={agents} onClose={() => setNew(false)} />}
    </>
  );
}
