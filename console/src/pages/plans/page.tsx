/** The newest plans of all sessions, and how a request would be split. */
import type { VNode } from "preact";
import type { Page } from "../../api/http";
import type { AgentSummary, PlanTask } from "../../api/types";
import { grouped } from "../../lib/grouped";
import { Plain } from "../../lib/hidden";
import { useLive, usePages, useResource, useThrottled } from "../../lib/resource";
import { link, type Route } from "../../lib/router";
import { Moment } from "../../lib/time";
import { t } from "../../lib/words";
import { useMay } from "../../session";
import { Empty, ErrorBox, Loading, More } from "../../ui/basics";
import { Choice } from "../../ui/filtering";
import { TASKS } from "../../ui/state";
import { Progress, TaskBadge } from "./parts";
import { Preview } from "./preview";

const PAGE = 200;
const PAUSE_MS = 1000;

function Filters({ agent, status, agents }: { agent: string; status: string; agents: string[] }): VNode {
  const names = new Set(agent ? [agent, ...agents] : agents);
  return (
    <div class="filters" role="search">
      <Choice name="agent" label={t("common.agent")} value={agent} options={[...names].map((name) => [name, name])} />
      <Choice name="status" label={t("common.status")} value={status} options={Object.entries(TASKS).map(([name, [, word]]) => [name, t(word)])} />
    </div>
  );
}

function Plan({ tasks, isWhole }: { tasks: PlanTask[]; isWhole: boolean }): VNode {
  const { session_id: session, supervisor, planned_at: at } = tasks[0]!;
  return (
    <li class="card plan">
      <div class="row spread">
        <h3>
          <a href={link(["sessions", session, "plan"])}>{session}</a>
        </h3>
        <span class="muted">
          {supervisor && (
            <>
              <Plain text={supervisor} />
              {" · "}
            </>
          )}
          <Moment at={at} />
        </span>
      </div>
      {isWhole ? <Progress tasks={tasks} /> : <p class="muted">{t("plans.n_match", { n: tasks.length })}</p>}
      <ul class="plan-tasks">
        {tasks.map((task) => (
          <li key={task.task_id}>
            <TaskBadge status={task.status} />{" "}
            <a href={link(["sessions", session, "plan"], { task: task.task_id })}>
              <Plain text={task.agent} />
            </a>{" "}
            <span class="muted">
              <Plain text={task.description ?? ""} />
            </span>
          </li>
        ))}
      </ul>
    </li>
  );
}

export function PlansPage({ route }: { route: Route }): VNode {
  const agent = route.query.get("agent") ?? "";
  const status = route.query.get("status") ?? "";
  const mayTry = useMay("run");
  const agents = useResource<Page<AgentSummary>>("/agents");
  const tasks = usePages<PlanTask>("/tasks", { agent, status }, PAGE);
  const later = useThrottled(tasks.reload, PAUSE_MS);
  useLive({ types: ["task"] }, later, later);
  const isFiltered = Boolean(agent || status);
  const plans = [...grouped(tasks.data ?? [], (task) => `${task.session_id}/${task.plan}`)];
  // The last one goes on with the next page.
  if (tasks.more && plans.length > 1) plans.pop();
  return (
    <>
      <h1>{t("common.plans")}</h1>
      {mayTry && <Preview route={route} supervisors={agents.data?.items.filter((each) => each.kind === "supervisor").map((each) => each.name) ?? []} />}
      <h2>{t("plans.newest")}</h2>
      <Filters agent={agent} status={status} agents={agents.data?.items.map((each) => each.name) ?? []} />
      {tasks.error && <ErrorBox error={tasks.error} retry={tasks.reload} />}
      {!tasks.data && !tasks.error && <Loading />}
      {tasks.data && !plans.length && <Empty>{t(isFiltered ? "plans.none_found" : "plans.no_plans")}</Empty>}
      <ul class="plans">
        {plans.map(([key, each]) => (
          <Plan key={key} tasks={each} isWhole={!isFiltered} />
        ))}
      </ul>
      <More more={tasks.more} busy={tasks.isLoadingMore} />
    </>
  );
}
