/** What happened beside the conversation: questions to people, guardrails, errors, decisions. */
import type { VNode } from "preact";
import type { SessionEvent } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { link } from "../../lib/router";
import { named, t, type Word } from "../../lib/words";
import { Badge, word } from "../../ui/basics";
import { LookBadge, NOBODY } from "../../ui/state";
import { detail, standingOf, type Entry } from "./entries";
import { nameOf } from "./lanes";
import { Data, Fold, Problem } from "./tool";

const say = (event: SessionEvent, name: string): string => word(detail(event, name));

interface Answer {
  choice?: unknown;
  text?: unknown;
  by?: unknown;
}

export function Question({ entry }: { entry: Entry }): VNode {
  const { event, related } = entry;
  const ending = [event, ...related].findLast((each) => detail(each, "status"));
  const answer = (ending && detail(ending, "answer")) as Answer | undefined;
  const said = [word(answer?.choice), word(answer?.text)].filter(Boolean).join(" · ");
  return (
    <>
      <p>
        <LookBadge look={standingOf(entry)} />{" "}
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
      {answer && word(answer.by) === NOBODY && (
        <p>
          <Plain text={t("session.expired_default", { said })} />
        </p>
      )}
      {answer && word(answer.by) !== NOBODY && (
        <p>
          <strong>
            <Plain text={word(answer.by)} />
          </strong>
          {": "}
          <Plain text={said} />
        </p>
      )}
    </>
  );
}

export function Guarded({ event }: { event: SessionEvent }): VNode {
  const isWarning = say(event, "result") === "warned";
  return (
    <>
      <p>
        <Badge tone={isWarning ? "wait" : "bad"}>{t(isWarning ? "session.guard_warned" : "session.guard_stopped")}</Badge>{" "}
        <code>
          <Plain text={say(event, "guardrail")} />
        </code>
      </p>
      <Problem text={say(event, "message") || event.error} />
      <Fold label={t("session.details")}>{() => <Data name={t("session.details")} value={event.details} />}</Fold>
    </>
  );
}

export function RunError({ event }: { event: SessionEvent }): VNode {
  const outcome = say(event, "outcome");
  return (
    <p class="problem">
      <Badge tone="bad">{named("session", `outcome_${outcome || "failed"}`)}</Badge>{" "}
      <Plain text={event.error ?? say(event, "reason")} /> {say(event, "code") && <code><Plain text={say(event, "code")} /></code>}
    </p>
  );
}

/** What is told of in `details` under a name, and the words that tell it. */
const TOLD: [string, Word][] = [
  ["asks", "session.asked"],
  ["answer", "session.got_answer"],
  ["tells", "session.told"],
  ["rewound", "session.rewound"],
  ["published", "session.published"],
  ["trigger", "session.trigger_quiet"],
  ["approved", "session.confirmed"],
  ["state", "session.state_changed"],
];

function told(event: SessionEvent): string {
  const [name, key] = TOLD.find(([each]) => detail(event, each) !== undefined) ?? [];
  if (event.event_type === "agent_complete") return named("session", `outcome_${say(event, "outcome")}`);
  if (event.event_type === "route") return t("session.routed", { who: say(event, "agent"), what: say(event, "reason") || say(event, "method") });
  if (event.event_type === "task") {
    return [named("session", `task_${say(event, "phase")}`), say(event, "task_id"), say(event, "agent"), event.error].filter(Boolean).join(" ");
  }
  if (!name || !key) return event.event_type;
  const fact = detail(event, name);
  const { to, from, subject, state } = (typeof fact === "object" ? fact : {}) as Record<string, unknown>;
  const who = nameOf(word(to ?? from ?? detail(event, "by")));
  return t(key, { who, what: event.error ?? word(subject ?? state ?? detail(event, "tool") ?? fact) });
}

export function Note({ entry }: { entry: Entry }): VNode {
  const text = entry.item ? word(entry.item.type) : told(entry.event);
  const session = word((detail(entry.event, "asks") as { session?: unknown } | undefined)?.session);
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
