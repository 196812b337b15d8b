/** All agents in short. */
import type { ComponentChildren, VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import type { AgentSummary, Capability, AgentPresence } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { useShortcuts } from "../../lib/keys";
import type { Route } from "../../lib/router";
import { named, t, type Word } from "../../lib/words";
import { Empty, More, PlainLink } from "../../ui/basics";
import { Typed } from "../../ui/filtering";
import { Load, Standing, WaitLine, Who } from "./load";

const FIRST = 60;
const FEW = 8;

/** Things of one kind, on a line; all of them, or a few and how many more there are. */
export function Line({ label, items, most = Infinity }: { label: Word; items: ComponentChildren[]; most?: number }): VNode | null {
  if (!items.length) return null;
  return (
    <p class="chips">
      <span class="muted">{t(label)}</span>
      {items.slice(0, most)}
      {items.length > most && <span class="muted">+{items.length - most}</span>}
    </p>
  );
}

export const chips = (texts: string[]): VNode[] => texts.map((text) => <span class="chip"><Plain text={text} /></span>);
export const codes = (texts: string[]): VNode[] => texts.map((text) => <code><Plain text={text} /></code>);
const whos = (names: string[]): VNode[] => names.map((name) => <Who name={name} />);

export function Proficiency({ of }: { of: Capability }): VNode {
  return (
    <>
      <meter value={of.proficiency} aria-label={t("agents.proficiency", { name: of.name })} /> {Math.round(of.proficiency * 100)} %
    </>
  );
}

const abilities = (list: Capability[]): VNode[] =>
  list.map((each) => (
    <span class="chip" title={each.description}>
      <Plain text={each.name} /> <Proficiency of={each} />
    </span>
  ));

function Card({ agent, presence }: { agent: AgentSummary; presence: AgentPresence | undefined }): VNode {
  return (
    <li class="card agent-card">
      <header class="row spread">
        <h2>
          <PlainLink to={["agents", agent.name]} text={agent.name} />{" "}
          <small class="muted">{named("agents", `kind_${agent.kind}`)}</small>
        </h2>
        <Standing presence={presence} />
      </header>
      {agent.description && (
        <p dir="auto">
          <Plain text={agent.description} />
        </p>
      )}
      <p>
        <Load presence={presence} />
        {agent.max_sessions !== null && <span class="muted"> · {t("agents.at_most", { n: agent.max_sessions })}</span>}
        {agent.available === false && <span class="muted"> · {t("agents.unavailable")}</span>}
      </p>
      {presence?.waits.slice(0, 3).map((wait) => (
        <p key={wait.message_id ?? wait.reason} class="waiting-line">
          <WaitLine wait={wait} />
        </p>
      ))}
      <Line label="agents.capabilities" items={abilities(agent.capabilities)} most={FEW} />
      <Line label="agents.keywords" items={chips(agent.triggers.keywords)} most={FEW} />
      <Line label="agents.patterns" items={codes(agent.triggers.patterns)} most={FEW} />
      <Line label="agents.handoffs" items={whos(agent.handoffs)} />
      <Line label="agents.tools" items={codes(agent.tools)} most={FEW} />
    </li>
  );
}

function fits(agent: AgentSummary, text: string): boolean {
  const told = [agent.name, agent.title, agent.description, agent.kind, ...agent.capabilities.map((each) => each.name), ...agent.triggers.keywords, ...agent.tools];
  return told.join(" ").toLowerCase().includes(text.toLowerCase());
}

export function Team({ agents, presences, route }: { agents: AgentSummary[]; presences: Map<string, AgentPresence>; route: Route }): VNode {
  const field = useRef<HTMLInputElement>(null);
  const [limit, setLimit] = useState(FIRST);
  useShortcuts([{ key: "/", word: "common.search", run: () => field.current?.focus() }]);
  const text = route.query.get("q") ?? "";
  const found = agents.filter((agent) => fits(agent, text));
  return (
    <>
      <div class="filters" role="search">
        <Typed name="q" label={t("common.search")} value={text} input={field} />
      </div>
      {found.length ? (
        <ul class="agent-cards">
          {found.slice(0, limit).map((agent) => (
            <Card key={agent.name} agent={agent} presence={presences.get(agent.name)} />
          ))}
        </ul>
      ) : (
        <Empty>{t("agents.none")}</Empty>
      )}
      <More more={found.length > limit ? () => setLimit(limit + FIRST) : null} busy={false} />
    </>
  );
}
