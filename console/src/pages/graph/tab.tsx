/** Who handed a session to whom, drawn, as it happens. */
import type { VNode } from "preact";
import { useMemo } from "preact/hooks";
import { part } from "../../api/http";
import type { SessionDetail } from "../../api/types";
import { ChoicePanel, useChoiceFocus } from "../../graph/choice";
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

function Row({ handoff, isChosen, onChoose }: { handoff: Handoff; isChosen: boolean; onChoose: (id: string) => void }): VNode {
  return (
    <li>
      <button type="button" class="relay" aria-pressed={isChosen} onClick={() => onChoose(handoff.id)}>
        <span class="who-to-whom">
          <Plain text={handoff.source} /> → <Plain text={handoff.target} />
        </span>
        <StatusBadge handoff={handoff} />
        {handoff.reason && (
          <span class="why">
            <Plain text={handoff.reason} />
          </span>
        )}
        <span class="muted when">
          {handoff.duration_ms !== null && `${duration(handoff.duration_ms)} · `}
          <Moment at={handoff.started_at} />
        </span>
      </button>
    </li>
  );
}

interface PanelProps {
  choice: Choice;
  handoffs: Handoff[];
  choose: (id: string) => void;
  close: () => void;
}

function Panel({ choice, handoffs, choose, close }: PanelProps): VNode {
  const { handoff, among, title } = choice;
  return (
    <ChoicePanel title={title} close={close}>
      {!handoff && <p class="muted">{t(among.length ? "graph.choose" : "graph.gone")}</p>}
      {(among.length > 1 || !handoff) && (
        <ol class="relays">
          {among.map((each) => (
            <Row key={each.id} handoff={each} isChosen={each === handoff} onChoose={choose} />
          ))}
        </ol>
      )}
      {handoff && <HandoffDetails key={handoff.id} handoff={handoff} at={handoffs.indexOf(handoff)} />}
    </ChoicePanel>
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

function Now({ session }: { session: SessionDetail }): VNode {
  const names = session.waiting_for.join(", ");
  return (
    <p role="status" class="row">
      <span>
        <Plain text={t("graph.active", { agent: session.agent })} />
      </span>
      <StateBadge state={session.state} />
      {names && (
        <span class="muted">
          <Plain text={t("graph.waits_for", { names })} />
        </span>
      )}
    </p>
  );
}

function Legend(): VNode {
  return (
    <p class="muted legend">
      {t("graph.legend_count")} · {t("graph.legend_back")} · {t("graph.legend_failed")} · {t("graph.legend_busy")}
    </p>
  );
}

const NOTHING = { handoff: null, pair: null, box: null };

function Graph({ session, handoffs, route }: { session: SessionDetail; handoffs: Handoff[]; route: Route }): VNode {
  const isExpanded = route.query.get("view") === "expanded";
  const relay = useMemo(() => relayOf(session.agent, handoffs), [session.agent, handoffs]);
  const drawn = (isExpanded ? expanded : aggregated)(relay, session);
  const choice = choiceOf(route, relay, handoffs, isExpanded);
  const focus = useChoiceFocus(route.query.toString());
  const show = (query: Partial<Record<keyof typeof NOTHING, string>>): void => {
    focus.byHand();
    adjust({ ...NOTHING, ...query });
  };
  const choose = (handoff: string): void => show({ handoff });
  const close = (): void => {
    if (!choice) return;
    adjust(NOTHING);
    focus.leave();
  };
  const chooseDrawn = (id: string): void => {
    const stay = relay.stays.find((each) => each.id === id || boxOf(each.agent) === id);
    const pair = pairsOf(relay).find((each) => each.id === id);
    if (stay?.agent === null) return;
    if (stay) show({ box: boxOf(stay.agent) });
    else if (pair && pair.handoffs.length !== 1) show({ pair: id });
    else choose(pair?.handoffs[0]!.id ?? id);
  };
  const escape = (event: KeyboardEvent): void => {
    if (event.key === "Escape") close();
  };
  return (
    <div class={choice ? "graph with-panel" : "graph"} ref={focus.place} onKeyDown={escape}>
      <div class="graph-main">
        <Drawing
          key={isExpanded ? "expanded" : "aggregated"}
          label={t(isExpanded ? "graph.drawing_expanded" : "graph.drawing_aggregated")}
          boxes={drawn.boxes}
          arrows={drawn.arrows}
          {...(drawn.arrange ? { arrange: drawn.arrange } : {})}
          boxWidth={148}
          chosen={choice?.id ?? null}
          onChoose={chooseDrawn}
          reveal={choice?.id ?? drawn.active}
        />
        {handoffs.length > 0 ? <Legend /> : <p class="muted">{t("graph.none")}</p>}
      </div>
      {choice && <Panel choice={choice} handoffs={handoffs} choose={choose} close={close} />}
      {handoffs.length > 0 && (
        <section class="graph-list" aria-labelledby="handoffs-list">
          <h3 id="handoffs-list">{t("graph.as_list")}</h3>
          <ol class="relays">
            {handoffs.map((each) => (
              <Row key={each.id} handoff={each} isChosen={each === choice?.handoff} onChoose={choose} />
            ))}
          </ol>
        </section>
      )}
    </div>
  );
}

export function GraphTab({ id, route }: { id: string; route: Route }): VNode {
  const path = `/sessions/${part(id)}`;
  const list = usePages<Handoff>(`${path}/handoffs`, { views: false }, MOST);
  const session = useResource<SessionDetail>(path);
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
