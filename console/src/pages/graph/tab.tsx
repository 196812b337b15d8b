/** Who handed a session to whom, drawn, as it happens. */
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { part } from "../../api/http";
import type { SessionDetails } from "../../api/types";
import { Choosing, Line } from "../../graph/choice";
import { Drawing } from "../../graph/drawing";
import { Plain } from "../../lib/hidden";
import { useLive, usePages, useResource, useThrottled } from "../../lib/resource";
import { adjust, link, type Route } from "../../lib/router";
import { duration, Moment } from "../../lib/time";
import { t } from "../../lib/words";
import { ErrorBox, Loading, More } from "../../ui/basics";
import { StateBadge } from "../../ui/state";
import { aggregated, expanded, nameOf } from "./drawn";
import { HandoffDetails, StatusBadge } from "./panel";
import { boxOf, pairsOf, relayOf, type Handoff, type Relay } from "./relay";

const MOST = 1000;

const show = (choice: { handoff?: string; pair?: string; box?: string }): void => adjust({ handoff: null, pair: null, box: null, ...choice });

/** What is chosen: a handoff, or all between two agents, or all of one agent. */
interface Choice {
  handoff: Handoff | null;
  /** Those that it is one of. */
  among: Handoff[];
  title: string;
  /** Its box or arrow in the drawing. */
  id: string | null;
}

function choiceOf(route: Route, relay: Relay, handoffs: Handoff[], isExpanded: boolean): Choice | null {
  const wanted = route.query.get("handoff");
  const box = route.query.get("box");
  const pairs = pairsOf(relay);
  const handoff = handoffs.find((each) => each.id === wanted) ?? null;
  const pair = pairs.find((each) => (handoff ? each.handoffs.includes(handoff) : each.id === route.query.get("pair")));
  const own = relay.stays.find((stay) => stay.agent !== null && boxOf(stay.agent) === box)?.agent;
  if (!wanted && own) {
    const among = handoffs.filter((each) => each.source === own || each.target === own);
    return { handoff: null, among, title: t("graph.handoffs_of", { agent: own }), id: isExpanded ? null : boxOf(own) };
  }
  if (pair) {
    const title = `${nameOf(pair.from)} → ${nameOf(pair.to)}`;
    return { handoff, among: pair.handoffs, title, id: isExpanded ? (handoff?.id ?? null) : pair.id };
  }
  return wanted ? { handoff: null, among: [], title: t("graph.chosen"), id: null } : null;
}

const line = (handoff: Handoff, chosen: Handoff | null | undefined): VNode => (
  <Line
    key={handoff.id}
    isChosen={handoff === chosen}
    choose={() => show({ handoff: handoff.id })}
    who={
      <>
        <Plain text={handoff.source} /> → <Plain text={handoff.target} />
      </>
    }
    badge={<StatusBadge handoff={handoff} />}
    why={(handoff.status === "failed" && (handoff.error ?? handoff.code)) || (handoff.reason ?? "")}
    when={
      <>
        {handoff.duration_ms !== null && handoff.status !== "failed" && `${duration(handoff.duration_ms)} · `}
        <Moment at={handoff.started_at} />
      </>
    }
  />
);

function Details({ choice: { handoff, among }, handoffs }: { choice: Choice; handoffs: Handoff[] }): VNode {
  return (
    <>
      {!handoff && <p class="muted">{t(among.length ? "graph.choose" : "graph.gone")}</p>}
      {(among.length > 1 || !handoff) && <ol class="relays">{among.map((each) => line(each, handoff))}</ol>}
      {handoff && <HandoffDetails key={handoff.id} handoff={handoff} at={handoffs.indexOf(handoff)} />}
    </>
  );
}

function Views({ id, isExpanded }: { id: string; isExpanded: boolean }): VNode {
  const at = (view: string | null): string => link(["sessions", id, "graph"], { view });
  return (
    <nav class="views" aria-label={t("graph.view")}>
      <a href={at(null)} aria-current={isExpanded ? undefined : "page"}>
        {t("graph.aggregated")}
      </a>
      <a href={at("expanded")} aria-current={isExpanded ? "page" : undefined}>
        {t("graph.expanded")}
      </a>
    </nav>
  );
}

function Now({ session }: { session: SessionDetails }): VNode {
  const names = session.waiting_for.join(", ");
  return (
    <p role="status" class="row">
      <span>
        <Plain text={t("graph.active", { agent: session.agent })} />
      </span>
      <StateBadge session={session} />
      {names && (
        <span class="muted">
          <Plain text={t("graph.waits_for", { names })} />
        </span>
      )}
    </p>
  );
}

function Graph({ session, handoffs, route }: { session: SessionDetails; handoffs: Handoff[]; route: Route }): VNode {
  const isExpanded = route.query.get("view") === "expanded";
  const relay = useMemo(() => relayOf(session.agent, handoffs), [session.agent, handoffs]);
  const { active, ...drawn } = (isExpanded ? expanded : aggregated)(relay, session);
  const choice = choiceOf(route, relay, handoffs, isExpanded);
  const choose = (id: string): void => {
    const stay = relay.stays.find((each) => each.id === id || boxOf(each.agent) === id);
    const pair = pairsOf(relay).find((each) => each.id === id);
    if (stay?.agent === null) return;
    if (stay) show({ box: boxOf(stay.agent) });
    else if (pair && pair.handoffs.length !== 1) show({ pair: id });
    else show({ handoff: pair?.handoffs[0]!.id ?? id });
  };
  const drawing = (
    <div class="graph-main">
      <Drawing
        key={isExpanded}
        label={t(isExpanded ? "graph.drawing_expanded" : "graph.drawing_aggregated")}
        {...drawn}
        boxWidth={148}
        chosen={choice?.id ?? null}
        onChoose={choose}
        reveal={choice?.id ?? active}
      />
      <p class="muted legend">
        {handoffs.length
          ? [t("graph.legend_count"), t("graph.legend_back"), t("graph.legend_failed"), t("graph.legend_busy")].join(" · ")
          : t("graph.none")}
      </p>
    </div>
  );
  return (
    <Choosing
      title={choice && choice.title}
      details={choice && <Details choice={choice} handoffs={handoffs} />}
      chosen={route.query.toString()}
      clear={() => show({})}
      drawing={drawing}
      word="graph.as_list"
      lines={handoffs.map((each) => line(each, choice?.handoff))}
    />
  );
}

export function GraphTab({ id, route }: { id: string; route: Route }): VNode {
  const path = `/sessions/${part(id)}`;
  const list = usePages<Handoff>(`${path}/handoffs`, { views: false }, MOST);
  const session = useResource<SessionDetails>(path);
  const later = useThrottled(() => {
    list.reload();
    session.reload();
  }, 300);
  useLive({ sessions: [id] }, later, later);
  const error = session.error ?? list.error;
  return (
    <>
      <div class="row spread">
        <h2>{t("common.graph")}</h2>
        <Views id={id} isExpanded={route.query.get("view") === "expanded"} />
      </div>
      {error && <ErrorBox error={error} retry={later} />}
      {session.data && list.data ? (
        <>
          <Now session={session.data} />
          <Graph session={session.data} handoffs={list.data} route={route} />
          <More more={list.more} busy={list.isLoadingMore} />
        </>
      ) : (
        !error && <Loading />
      )}
    </>
  );
}
