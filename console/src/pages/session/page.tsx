/** One session: its conversation, who handed it to whom, its trace and its plan. */
import type { VNode } from "preact";
import { link, type Route } from "../../lib/router";
import { t } from "../../lib/words";
import { Tabs } from "../../ui/tabs";
import { ConversationTab } from "./conversation";
import { GraphTab } from "../graph/tab";
import { PlanTab } from "../plans/tab";
import { TraceTab } from "../trace/tab";

export function SessionPage({ id, route }: { id: string; route: Route }): VNode {
  const tab = route.path[2] ?? "conversation";
  const at = (name: string): string => link(["sessions", id, ...(name === "conversation" ? [] : [name])]);
  const tabs = [
    { name: "conversation", href: at("conversation"), label: t("common.conversation") },
    { name: "graph", href: at("graph"), label: t("common.graph") },
    { name: "trace", href: at("trace"), label: t("common.trace") },
    { name: "plan", href: at("plan"), label: t("common.plan") },
  ];
  return (
    <>
      <Tabs tabs={tabs} current={tab} label={t("common.session_parts")} />
      {tab === "conversation" && <ConversationTab id={id} route={route} />}
      {tab === "graph" && <GraphTab id={id} route={route} />}
      {tab === "trace" && <TraceTab id={id} route={route} />}
      {tab === "plan" && <PlanTab id={id} route={route} />}
    </>
  );
}
