/** Everything about one agent. */
import type { ComponentChildren, VNode } from "preact";
import { part } from "../../api/http";
import type { AgentDetails, AgentPresence } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Code } from "../../lib/markdown";
import { useResource } from "../../lib/resource";
import { link } from "../../lib/router";
import { named, t, type Word } from "../../lib/words";
import { Facts, Pending, PlainLink, pretty, word } from "../../ui/basics";
import { Load, Standing, WaitLine, Who } from "./load";
import { chips, codes, Line, Proficiency } from "./team";

function Part({ title, children }: { title: Word; children: ComponentChildren }): VNode {
  return (
    <section class="card">
      <h2>{t(title)}</h2>
      {children}
    </section>
  );
}

/** A table that scrolls in its own box; nothing if there are no rows. */
function Rows({ title, heads, rows }: { title: Word; heads: Word[]; rows: ComponentChildren[][] }): VNode | null {
  if (!rows.length) return null;
  return (
    <Part title={title}>
      <div class="scroll" tabIndex={0} role="group" aria-label={t(title)}>
        <table>
          <thead>
            <tr>{heads.map((head) => <th scope="col">{t(head)}</th>)}</tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr>{row.map((each) => <td>{each}</td>)}</tr>
            ))}
          </tbody>
        </table>
      </div>
    </Part>
  );
}

const cell = (value: unknown): VNode => <Plain text={word(value)} />;

const yesOrNo = (value: unknown): string => t(value ? "agents.yes" : "agents.no");

function Tables({ agent }: { agent: AgentDetails }): VNode {
  return (
    <>
      <Rows
        title="agents.capabilities"
        heads={["agents.capability", "agents.proficient", "agents.description", "agents.tags"]}
        rows={agent.capabilities.map((each) => [cell(each.name), <Proficiency of={each} />, cell(each.description), cell(each.tags.join(", "))])}
      />
      <Rows
        title="agents.handoffs"
        heads={["agents.to", "agents.when", "agents.policy", "agents.condition", "agents.description", "agents.may_return"]}
        rows={agent.handoffs.map((each) => [
          <Who name={word(each.to)} />,
          named("agents", `when_${word(each.when)}`),
          named("agents", `policy_${word(each.policy)}`),
          cell(each.condition ?? each.trigger),
          cell(each.description),
          yesOrNo(each.allow_return),
        ])}
      />
      <Rows
        title="agents.tools"
        heads={["agents.tool", "agents.description", "agents.asks_first"]}
        rows={agent.tools.map((each) => [<code>{cell(each.name)}</code>, cell(each.description), typeof each.asks_first === "boolean" ? yesOrNo(each.asks_first) : "?"])}
      />
    </>
  );
}

function Triggers({ agent }: { agent: AgentDetails }): VNode | null {
  const { keywords, patterns, examples, priority } = agent.triggers;
  if (!keywords.length && !patterns.length && !examples.length) return null;
  return (
    <Part title="agents.triggers">
      <Line label="agents.keywords" items={chips(keywords)} />
      <Line label="agents.patterns" items={codes(patterns)} />
      <Line label="agents.examples" items={chips(examples)} />
      <Line label="agents.priority" items={[priority]} />
    </Part>
  );
}

function Now({ name, presence }: { name: string; presence: AgentPresence | undefined }): VNode {
  return (
    <Part title="agents.now">
      <p>
        <Load presence={presence} /> <a href={link(["sessions"], { agent: name })}>{t("agents.its_sessions")}</a>
      </p>
      <Line
        label="agents.runs"
        items={(presence?.running ?? []).map(({ session_id: id }) => <PlainLink to={["sessions", id]} text={id} />)}
        most={20}
      />
      {presence?.waits.map((wait) => (
        <p key={wait.message_id ?? wait.reason} class="waiting-line">
          <WaitLine wait={wait} />
        </p>
      ))}
    </Part>
  );
}

const SETTINGS = [
  "model",
  "origin",
  "path",
  "scope",
  "available",
  "max_sessions",
  "runs_on",
  "can_ask",
  "can_tell",
  "can_ask_people",
  "guardrails",
  "memory",
  "supervisor",
] as const;

function setting(value: unknown): ComponentChildren {
  if (typeof value === "boolean") return yesOrNo(value);
  if (Array.isArray(value)) return value.length > 0 && <Plain text={value.join(", ")} />;
  if (value && typeof value === "object") return <Code text={pretty(value)} />;
  return value != null && <Plain text={word(value)} />;
}

export function AgentPage({ name, presence }: { name: string; presence: AgentPresence | undefined }): VNode {
  const found = useResource<AgentDetails>(`/agents/@${part(name)}`);
  const agent = found.data;
  return (
    <>
      <p>
        <a href={link(["agents"])}>← {t("agents.all")}</a>
      </p>
      <div class="row">
        <h1>
          <Plain text={name} />
        </h1>
        {agent && <span class="muted">{named("agents", `kind_${agent.kind}`)}</span>}
        <Standing presence={presence} />
      </div>
      <Pending of={found} />
      {agent && (
        <div class="agent-parts">
          {agent.title && <p><b><Plain text={agent.title} /></b></p>}
          {agent.description && <p dir="auto"><Plain text={agent.description} /></p>}
          <Facts rows={SETTINGS.map((name) => [named("agents", name), setting(agent[name])])} />
          <Now name={name} presence={presence} />
          {agent.instructions && (
            <Part title="agents.instructions">
              <Code text={agent.instructions} />
            </Part>
          )}
          <Triggers agent={agent} />
          <Tables agent={agent} />
        </div>
      )}
    </>
  );
}
