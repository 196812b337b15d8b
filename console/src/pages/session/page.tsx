/** One session: its conversation, who handed it to whom, its trace and its plan. */
import type { VNode } from "preact";
import { address, part } from "../../api/http";
import type { Run, SessionDetails } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { useLive, useResource, useThrottled } from "../../lib/resource";
import { link, type Route } from "../../lib/router";
import { Moment } from "../../lib/time";
import { t, type Word } from "../../lib/words";
import { Facts, Pending, PlainLink } from "../../ui/basics";
import { StateBadge } from "../../ui/state";
import { Tabs } from "../../ui/tabs";
import { GraphTab } from "../graph/tab";
import { PlanTab } from "../plans/tab";
import { TraceTab } from "../trace/tab";
import { RunActions } from "./actions";
import { ConversationTab } from "./conversation";
import { nameOf } from "./lanes";
import { TURNS } from "./turns";

const TABS: [string, Word][] = [
  ["conversation", "common.conversation"],
  ["graph", "common.graph"],
  ["trace", "common.trace"],
  ["plan", "common.plan"],
];
const SOON_MS = 300;
const SETTLED_MS = 2000;

function Top({ session, run, reload }: { session: SessionDetails; run: Run | null; reload: () => void }): VNode {
  const id = session.session_id;
  const forked = session.meta.forked_from;
  const waits = session.waiting_for.map(nameOf).join(", ");
  return (
    <header class="session-top">
      <div class="row spread">
        <h1>
          <Plain text={session.title || id} />
        </h1>
        <span class="row">
          <span role="status">
            <StateBadge session={session} />
          </span>
          <RunActions session={session} run={run} reload={reload} />
          <a href={address(`/sessions/${part(id)}/export`)} download={`${id}.json`}>
            {t("session.export")}
          </a>
        </span>
      </div>
      <Facts
        rows={[
          [t("common.session"), session.title ? <code>{id}</code> : null],
          [t("common.agent"), <Plain text={nameOf(session.agent)} />],
          [t("common.user"), session.user_id && <Plain text={session.user_id} />],
          [t("sessions.waits"), waits && <Plain text={waits} />],
          [t("session.created"), <Moment at={session.created_at} />],
          [t("session.updated"), <Moment at={session.updated_at} />],
          [t("session.forked_from"), typeof forked === "string" && <PlainLink to={["sessions", forked]} text={forked} />],
        ]}
      />
    </header>
  );
}

function Gone({ id }: { id: string }): VNode {
  return (
    <div class="empty" role="alert">
      <h1>
        <Plain text={t("session.gone", { id })} />
      </h1>
      <a href={link(["sessions"])}>{t("session.all_sessions")}</a>
    </div>
  );
}

/** What can be the id of a session: nobody is asked about anything else. */
const ID = /^[\w.:@-]{1,128}$/;

export function SessionPage({ id, route }: { id: string; route: Route }): VNode {
  return ID.test(id) ? <Shown id={id} route={route} /> : <Gone id={id} />;
}

function Shown({ id, route }: { id: string; route: Route }): VNode {
  const found = useResource<SessionDetails>(`/sessions/${part(id)}`);
  const session = found.data;
  const run = useResource<Run>(session?.run_id ? `/runs/${part(session.run_id)}` : null);
  const reload = (): void => (found.reload(), run.reload());
  const soon = useThrottled(reload, SOON_MS);
  // The lease of a run ends a little after its last event.
  const settled = useThrottled(reload, SETTLED_MS);
  useLive({ sessions: [id], types: TURNS }, () => (soon(), settled()), soon);
  if (found.error?.status === 404) return <Gone id={id} />;
  if (!session) return <Pending of={found} />;
  const tab = route.path[2] ?? "conversation";
  const tabs = TABS.map(([name, word], at) => ({ name, href: link(["sessions", id, ...(at ? [name] : [])]), label: t(word) }));
  return (
    <>
      <Top session={session} run={run.data} reload={reload} />
      <Tabs tabs={tabs} current={tab} label={t("common.session_parts")} />
      {tab === "conversation" && <ConversationTab session={session} run={run.data} route={route} reload={reload} />}
      {tab === "graph" && <GraphTab id={id} route={route} />}
      {tab === "trace" && <TraceTab id={id} route={route} />}
      {tab === "plan" && <PlanTab id={id} route={route} />}
    </>
  );
}
