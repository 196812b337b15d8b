/** One session in the list. */
import type { VNode } from "preact";
import type { SessionSummary } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Moment } from "../../lib/time";
import { named, t } from "../../lib/words";
import { PlainLink } from "../../ui/basics";
import { StateBadge } from "../../ui/state";
import { nameOf } from "../session/lanes";

const NORMAL = 2;

export function SessionRow({ session }: { session: SessionSummary }): VNode {
  const { session_id: id, title, agent, user_id: user, waiting_for: waits, priority } = session;
  return (
    <div class="session-row">
      <span class="name">
        <PlainLink to={["sessions", id]} text={title || id} />
        {title && (
          <small class="muted">
            <Plain text={id} />
          </small>
        )}
      </span>
      <span class="state">
        <StateBadge session={session} />
        {priority > NORMAL && <strong class="urgent">{named("sessions", `priority_${priority}`)}</strong>}
      </span>
      <span class="whose">
        <span class="hidden">{t("common.agent")} </span>
        <Plain text={nameOf(agent)} />
        {user && (
          <small class="muted">
            <span class="hidden">{t("common.user")} </span>
            <Plain text={user} />
          </small>
        )}
      </span>
      <span class="waits muted">
        {waits.length > 0 && (
          <>
            {t("sessions.waits")} <Plain text={waits.map(nameOf).join(", ")} />
          </>
        )}
      </span>
      <span class="age muted">
        <span class="hidden">{t("sessions.begun")} </span>
        <Moment at={session.created_at} />
      </span>
    </div>
  );
}
