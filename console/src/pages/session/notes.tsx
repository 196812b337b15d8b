/** What happened beside the conversation: questions to people, guardrails, errors, decisions. */
import type { VNode } from "preact";
import type { EventModel } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { link } from "../../lib/router";
import { named, t, type Word } from "../../lib/words";
import { Badge } from "../../ui/basics";
import { detail, standingOf, word, type Entry } from "./entries";
import { nameOf } from "./lanes";
import { Data, Fold } from "./tool";

const say = (event: EventModel, name: string): string => word(detail(event, name));

interface Answer {
  choice?: unknown;
  text?: unknown;
  by?: unknown;
}

export function Question({ entry }: { entry: Entry }): VNode {
  const { event, related } = entry;
  const ending = [event, ...related].findLast((each) => detail(each, "status"));
  const answer = (ending && detail(ending, "answer")) as Answer | undefined;
  const status = standingOf(entry);
  return (
    <>
      <p>
        <Badge tone={status === "open" ? "wait" : status === "answered" ? "good" : "neutral"}>
          {named("session", `question_${status}`)}
        </Badge>{" "}
        {t("session.asks_people", { role: say(event, "role") || "?" })}{" "}
        <a href={link(["inbox", say(event, "item")])}>{t("session.in_inbox")}</a>
      </p>
      <p>
        <Plain text={say(event, "subject")} />
      </p>
      {say(event, "reason") && (
        <p class="muted">
          <Plain text={say(event, "reason")} />
        </p>
      )}
      {answer && (
        <p>
          <strong>
            <Plain text={word(answer.by)} />
          </strong>
          {": "}
          <Plain text={[word(answer.choice), word(answer.text)].filter(Boolean).join(" · ")} />
        </p>
      )}
    </>
  );
}

export function Guarded({ event }: { event: EventModel }): VNode {
  const violations = (detail(event, "violations") ?? []) as { path?: unknown; message?: unknown }[];
  const isWarning = say(event, "result") === "warned";
  return (
    <>
      <p>
        <Badge tone={isWarning ? "wait" : "bad"}>{t(isWarning ? "session.guard_warned" : "session.guard_stopped")}</Badge>{" "}
        <code>
          <Plain text={say(event, "guardrail")} />
        </code>{" "}
        <span class="muted">
          <Plain text={[say(event, "type"), say(event, "behavior"), say(event, "tool")].filter(Boolean).join(" · ")} />
        </span>
      </p>
      {(say(event, "message") || event.error) && (
        <p class="problem">
          <Plain text={say(event, "message") || event.error || ""} />
        </p>
      )}
      {violations.map((each) => (
        <p class="problem">
          <Plain text={[word(each.path), word(each.message)].filter(Boolean).join(": ")} />
        </p>
      ))}
      {detail(event, "info") !== undefined && (
        <Fold label={t("session.details")}>{() => <Data name={t("session.details")} value={detail(event, "info")} />}</Fold>
      )}
    </>
  );
}

export function RunError({ event }: { event: EventModel }): VNode {
  const outcome = say(event, "outcome");
  return (
    <p class="problem">
      <Badge tone="bad">{named("session", `outcome_${outcome || "failed"}`)}</Badge>{" "}
      <Plain text={event.error ?? say(event, "reason")} /> {say(event, "code") && <code><Plain text={say(event, "code")} /></code>}
    </p>
  );
}

type Told = { id?: unknown; to?: unknown; from?: unknown; subject?: unknown; session?: unknown; state?: unknown };

/** Which sentence tells it, with what in it, and the session that it leads to. */
function told(event: EventModel): { text: string; session?: string } {
  const at = (name: string): Told | undefined => detail(event, name) as Told | undefined;
  const asks = at("asks");
  const answer = at("answer");
  const tells = at("tells");
  const fill = (key: Word, values: Record<string, string | number>): { text: string } => ({ text: t(key, values) });
  if (asks) return { ...fill("session.asked", { who: nameOf(word(asks.to)), what: word(asks.subject) }), session: word(asks.session) };
  if (answer) return fill("session.got_answer", { who: nameOf(word(answer.from)), what: event.error ?? word(answer.state) });
  if (tells) return fill("session.told", { who: nameOf(word(tells.to)), what: word(tells.subject) });
  if (detail(event, "rewound") !== undefined) return fill("session.rewound", { seq: say(event, "rewound") });
  if (detail(event, "published")) return fill("session.published", { what: say(event, "published") });
  if (detail(event, "trigger")) return fill("session.trigger_quiet", { what: say(event, "trigger") });
  if (event.event_type === "route") return fill("session.routed", { who: say(event, "agent"), what: say(event, "reason") || say(event, "method") });
  if (event.event_type === "task") {
    const error = event.error ? `: ${event.error}` : "";
    return { text: `${named("session", `task_${say(event, "phase")}`)} ${say(event, "task_id")} ${say(event, "agent")}${error}` };
  }
  if (event.event_type === "tool_confirmation") {
    const key = detail(event, "approved") ? "session.approved" : "session.rejected";
    return { text: `${say(event, "tool")}: ${t(key, { who: say(event, "by") })} ${say(event, "reason")}` };
  }
  if (event.event_type === "agent_complete") return { text: named("session", `outcome_${say(event, "outcome")}`) };
  return fill(detail(event, "state") ? "session.state_changed" : "session.happened", { who: say(event, "by"), what: event.event_type });
}

export function Note({ entry }: { entry: Entry }): VNode {
  const { text, session } = entry.item ? { text: word(entry.item.type), session: undefined } : told(entry.event);
  const data = entry.item ?? entry.event.details;
  const sentence = (
    <span class="muted">
      <Plain text={text} />
    </span>
  );
  return (
    <>
      {data ? <Fold label={sentence}>{() => <Data name={t("session.details")} value={data} />}</Fold> : <p>{sentence}</p>}
      {session && <a href={link(["sessions", session])}>{t("session.open_session")}</a>}
    </>
  );
}
