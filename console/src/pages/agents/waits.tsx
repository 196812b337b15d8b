/** Who waits for whom now: drawn, and told. */
import type { VNode } from "preact";
import type { AgentPresence, BlockingContext } from "../../api/types";
import { Drawing, type DrawnArrow, type DrawnBox } from "../../graph/drawing";
import { grouped } from "../../lib/grouped";
import { go } from "../../lib/router";
import { t } from "../../lib/words";
import { Empty } from "../../ui/basics";
import { nameOf } from "../session/lanes";
import { isPerson, WaitLine } from "./load";

const MOST = 200;

function arrowsOf(waits: BlockingContext[]): DrawnArrow[] {
  const pairs = waits.flatMap(({ agent: from, waiting_for: whom, reason }) => whom.map((to) => ({ id: JSON.stringify([from, to]), from, to, reason })));
  pairs.sort((a, b) => (a.id < b.id ? -1 : 1));
  return [...grouped(pairs, (pair) => pair.id).values()].map((group) => {
    const { id, from, to } = group[0]!;
    const reasons = group.slice(0, 3).map((pair) => pair.reason);
    return {
      id,
      from,
      to,
      look: "busy",
      ...(group.length > 1 ? { label: `×${group.length}` } : {}),
      title: `${t("agents.one_waits", { from, to })}: ${reasons.join("; ")}`,
    };
  });
}

function boxesOf(arrows: DrawnArrow[]): DrawnBox[] {
  const waiting = new Set(arrows.map((arrow) => arrow.from));
  const names = new Set(arrows.flatMap((arrow) => [arrow.from, arrow.to]));
  return [...names].sort().map((id) => ({
    id,
    label: nameOf(id),
    look: waiting.has(id) ? "wait" : isPerson(id) ? "" : "busy",
    note: waiting.has(id) ? t("agents.is_waiting") : isPerson(id) ? t("common.person") : t("agents.is_asked"),
  }));
}

export function Waits({ presences }: { presences: AgentPresence[] }): VNode {
  const waits = presences.flatMap((each) => each.waits);
  const arrows = arrowsOf(waits.slice(0, MOST));
  const choose = (id: string): void => {
    const arrow = arrows.find((each) => each.id === id);
    if (!isPerson(arrow?.to ?? id)) go(["agents", arrow?.to ?? id]);
    else go(["inbox"]);
  };
  return (
    <section aria-labelledby="who-waits">
      <h2 id="who-waits">{t("agents.waits")}</h2>
      {waits.length ? (
        <>
          <Drawing label={t("agents.waits")} boxes={boxesOf(arrows)} arrows={arrows} onChoose={choose} />
          <ul class="wait-list">
            {waits.slice(0, MOST).map((wait) => (
              <li key={`${wait.agent} ${wait.message_id ?? wait.reason}`}>
                <WaitLine wait={wait} withAgent />
              </li>
            ))}
          </ul>
          {waits.length > MOST && <p class="muted">{t("agents.first_of", { n: MOST, all: waits.length })}</p>}
        </>
      ) : (
        <Empty>{t("agents.nobody_waits")}</Empty>
      )}
    </section>
  );
}
