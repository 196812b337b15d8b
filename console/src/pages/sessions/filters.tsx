/** Which sessions are listed; what is chosen stands in the address. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Page } from "../../api/http";
import type { AgentModel } from "../../api/types";
import { useResource } from "../../lib/resource";
import { adjust, type Route } from "../../lib/router";
import { t } from "../../lib/words";
import { STATES, type SessionState } from "../../ui/state";
import { nameOf } from "../session/lanes";

export interface Chosen {
  states: SessionState[];
  agent: string;
  user: string;
  text: string;
}

const ALL = Object.keys(STATES) as SessionState[];
const TYPING_MS = 300;

export function chosenIn({ query }: Route): Chosen {
  const states = (query.get("state") ?? "").split(",");
  return {
    states: ALL.filter((state) => states.includes(state)),
    agent: query.get("agent") ?? "",
    user: query.get("user") ?? "",
    text: query.get("text") ?? "",
  };
}

/** A field that is heeded when one has stopped typing. */
function Typed({ name, label, value }: { name: string; label: string; value: string }): VNode {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  useEffect(() => setText(value), [value]);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const heed = (now: string): void => {
    window.clearTimeout(timer.current);
    if (now.trim() !== value) adjust({ [name]: now.trim() });
  };
  const typed = (now: string): void => {
    setText(now);
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => heed(now), TYPING_MS);
  };
  return (
    <label class={`typed ${name}`}>
      {label}
      <input
        type="search"
        value={text}
        maxLength={500}
        onInput={(event) => typed(event.currentTarget.value)}
        onKeyDown={(event) => event.key === "Enter" && !event.isComposing && heed(text)}
      />
    </label>
  );
}

export function useAgentNames(): string[] {
  const agents = useResource<Page<AgentModel>>("/agents", { limit: 1000 });
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
    <div class="filters" role="search">
      <Typed name="text" label={t("sessions.search")} value={chosen.text} />
      <div class="chips" role="group" aria-label={t("sessions.states")}>
        {ALL.map((state) => (
          <button key={state} type="button" aria-pressed={chosen.states.includes(state)} onClick={() => toggle(state)}>
            {t(STATES[state][1])}
          </button>
        ))}
      </div>
      <label>
        {t("common.agent")}
        <select value={chosen.agent} onChange={(event) => adjust({ agent: event.currentTarget.value })}>
          <option value="">{t("common.all")}</option>
          {names.map((name) => (
            <option key={name} value={name}>
              {nameOf(name)}
            </option>
          ))}
        </select>
      </label>
      <Typed name="user" label={t("common.user")} value={chosen.user} />
    </div>
  );
}
