/** What an agent does now. */
import type { VNode } from "preact";
import type { AgentPresence, BlockingContext } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { link } from "../../lib/router";
import { Moment } from "../../lib/time";
import { t } from "../../lib/words";
import { PlainLink } from "../../ui/basics";
import { LookBadge, STATES } from "../../ui/state";
import { nameOf, PERSON } from "../session/lanes";

export const isPerson = (name: string): boolean => name.startsWith(PERSON);

const WAITING: Record<AgentPresence["status"], "waiting_agent" | "waiting_person" | null> = { internal: "waiting_agent", user: "waiting_person", none: null };

export function Standing({ presence }: { presence: AgentPresence | undefined }): VNode {
  return <LookBadge look={STATES[WAITING[presence?.status ?? "none"] ?? (presence?.running.length ? "working" : "idle")]} />;
}

export function Load({ presence }: { presence: AgentPresence | undefined }): VNode {
  const { running = [], ready = 0, waiting = 0 } = presence ?? {};
  return <span class="load">{t("agents.load", { running: running.length, ready, waiting })}</span>;
}

/** An agent as a link, or a person. */
export function Who({ name }: { name: string }): VNode {
  return isPerson(name) ? <Plain text={nameOf(name)} /> : <PlainLink to={["agents", name]} text={name} />;
}

export function WaitLine({ wait, withAgent = false }: { wait: BlockingContext; withAgent?: boolean }): VNode {
  return (
    <>
      {withAgent && <Who name={wait.agent} />} {t("agents.waits_for")}{" "}
      {wait.waiting_for.map((name, at) => (
        <>
          {at > 0 && ", "}
          <Who name={name} />
        </>
      ))}
      {wait.reason && (
        <>
          {": "}
          <q>
            <Plain text={wait.reason} />
          </q>
        </>
      )}{" "}
      <small class="muted">
        {wait.started_at !== null && <Moment at={wait.started_at} />}{" "}
        {wait.session_id && <a href={link(["sessions", wait.session_id])}>{t("common.session")}</a>}
      </small>
    </>
  );
}
