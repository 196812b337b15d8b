/** Which sessions are listed; what is chosen stands in the address. */
import type { VNode } from "preact";
import type { Page } from "../../api/http";
import type { AgentSummary } from "../../api/types";
import { useResource } from "../../lib/resource";
import { adjust, type Route } from "../../lib/router";
import { t } from "../../lib/words";
import { Choice, Typed } from "../../ui/filtering";
import { CONCLUSIONS, STATES, type Conclusion, type SessionState } from "../../ui/state";
import { nameOf } from "../session/lanes";

export interface Chosen {
  states: SessionState[];
  conclusion: string;
  agent: string;
  user: string;
  text: string;
}

const ALL = Object.keys(STATES) as SessionState[];
const ENDS = Object.keys(CONCLUSIONS) as Conclusion[];

export function chosenIn({ query }: Route): Chosen {
  const states = (query.get("state") ?? "").split(",");
  return {
    states: ALL.filter((state) => states.includes(state)),
    conclusion: query.get("conclusion") ?? "",
    agent: query.get("agent") ?? "",
    user: query.get("user") ?? "",
    text: query.get("text") ?? "",
  };
}

export function useAgentNames(): string[] {
  const agents = useResource<Page<AgentSummary>>("/agents");
  return agents.data?.items.map((agent) => agent.name) ?? [];
}

export function Filters({ chosen, agents }: { chosen: Chosen; agents: string[] }): VNode {
  const toggle = (state: SessionState): void => {
    const is = chosen.states.includes(state);
    const states = ALL.filter((each) => (each === state ? !is : chosen.states.includes(each)));
    adjust({ state: states.join(",") });
  };
  const names = chosen.agent && !agents.includes(chosen.agent) ? [...agents, chosen.agent] : agents;
  return (
    <div class="filters sessions-filters" role="search">
      <Typed name="text" label={t("sessions.search")} value={chosen.text} />
      <div class="chips" role="group" aria-label={t("sessions.states")}>
        {ALL.map((state) => (
          <button key={state} type="button" aria-pressed={chosen.states.includes(state)} onClick={() => toggle(state)}>
            {t(STATES[state][1])}
          </button>
        ))}
      </div>
      <Choice
        name="conclusion"
        label={t("common.conclusion")}
        value={chosen.conclusion}
        options={ENDS.map((each) => [each, t(CONCLUSIONS[each][1])])}
      />
      <Choice name="agent" label={t("common.agent")} value={chosen.agent} options={names.map((name) => [name, nameOf(name)])} />
      <Typed name="user" label={t("common.user")} value={chosen.user} />
    </div>
  );
}
