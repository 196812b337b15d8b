/** The agents: who they are, what they do now, who waits for whom, and who would get a request. */
import type { VNode } from "preact";
import { useEffect } from "preact/hooks";
import type { Page } from "../../api/http";
import type { AgentSummary, AgentPresence } from "../../api/types";
import { useLive, useResource, useThrottled } from "../../lib/resource";
import { link, type Route } from "../../lib/router";
import { named, t } from "../../lib/words";
import { useMay } from "../../session";
import { ErrorBox, Loading } from "../../ui/basics";
import { Tabs } from "../../ui/tabs";
import { AgentPage } from "./agent";
import { Deadlocks } from "./deadlocks";
import { Playground } from "./playground";
import { Team } from "./team";
import { Waits } from "./waits";

/** What changes who works and who waits. */
const TELLING = ["agent_start", "agent_complete", "agent_error", "handoff", "message", "inbox", "task"];
const VIEWS = ["team", "waits", "route"];
const EVERY_MS = 10_000;

/** Call `then` at most once a second when something happens. */
function useChanges(then: () => void): void {
  const later = useThrottled(then, 1000);
  useLive({ types: TELLING }, later, later);
  useEffect(() => {
    // Programs that use the bus without a session leave no event behind.
    const timer = window.setInterval(() => !document.hidden && later(), EVERY_MS);
    return () => window.clearInterval(timer);
  }, []);
}

export function AgentsPage({ route }: { route: Route }): VNode {
  const may = useMay("run");
  const agents = useResource<Page<AgentSummary>>("/agents");
  const present = useResource<Page<AgentPresence>>("/agents/ps", { idle: false });
  useChanges(present.reload);
  const presences = new Map((present.data?.items ?? []).map((each) => [each.agent, each]));
  const name = route.path[1];
  if (name) return <AgentPage key={name} name={name} presence={presences.get(name)} />;
  const view = route.query.get("view") ?? "team";
  const tabs = VIEWS.filter((each) => may || each !== "route").map((each) => ({ name: each, href: link(["agents"], { view: each }), label: named("agents", each) }));
  const error = agents.error ?? present.error;
  return (
    <>
      <h1>{t("common.agents")}</h1>
      <Tabs tabs={tabs} current={view} label={t("common.agents")} />
      {error && <ErrorBox error={error} retry={() => (agents.reload(), present.reload())} />}
      {!agents.data && !error && <Loading />}
      {view === "team" && agents.data && <Team agents={agents.data.items} presences={presences} route={route} />}
      {view === "waits" && (
        <>
          {present.data && <Waits presences={present.data.items} />}
          <Deadlocks useChanges={useChanges} />
        </>
      )}
      {view === "route" && may && <Playground route={route} />}
    </>
  );
}
