/** Deadlocks, those there are and those there were: each as its circle, and who asked whom what. */
import type { VNode } from "preact";
import type { Deadlock } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { usePages } from "../../lib/resource";
import { Moment } from "../../lib/time";
import { named, t } from "../../lib/words";
import { Badge, Empty, More, Pending } from "../../ui/basics";
import { asksOf, Cycle } from "./cycle";
import { Who } from "./load";

const PAGE = 10;

function Asked({ deadlock }: { deadlock: Deadlock }): VNode {
  return (
    <ol>
      {asksOf(deadlock).map(({ from, to, text, isGivenUp }, at) => (
        <li key={at}>
          <Who name={from} /> {t("agents.asked_whom")} <Who name={to} />
          {text && (
            <>
              {": "}
              <q dir="auto">
                <Plain text={text} />
              </q>
            </>
          )}{" "}
          {isGivenUp && <Badge tone="bad">{t("agents.given_up")}</Badge>}
        </li>
      ))}
    </ol>
  );
}

function One({ deadlock }: { deadlock: Deadlock }): VNode {
  const { victim, policy, resolved } = deadlock;
  return (
    <li class="card deadlock">
      <header class="row">
        <Badge tone={resolved ? "good" : "bad"}>{t(resolved ? "agents.resolved" : "agents.present")}</Badge>
        <Moment at={deadlock.found_at} />
        {policy && <span class="muted">{t("agents.by_policy", { policy: named("agents", `victim_${policy}`) })}</span>}
      </header>
      <div class="deadlock-parts">
        <Cycle deadlock={deadlock} />
        <div>
          <Asked deadlock={deadlock} />
          {victim && (
            <p>
              <Who name={victim} /> {t(deadlock.given_up.length ? "agents.had_to" : "agents.left_itself")}
            </p>
          )}
        </div>
      </div>
    </li>
  );
}

export function Deadlocks({ useChanges }: { useChanges: (then: () => void) => void }): VNode {
  const found = usePages<Deadlock>("/agents/deadlocks", {}, PAGE);
  useChanges(found.reload);
  return (
    <section aria-labelledby="deadlocks">
      <h2 id="deadlocks">{t("agents.deadlocks")}</h2>
      <Pending of={found} />
      {found.data?.length === 0 && <Empty>{t("agents.no_deadlocks")}</Empty>}
      <ul class="plain">
        {found.data?.map((each) => <One key={each.id || each.message_ids.join()} deadlock={each} />)}
      </ul>
      <More more={found.more} busy={found.isLoadingMore} />
    </section>
  );
}
