/** The plan of a session: its tasks, how far they are, and what came of them. */
import type { VNode } from "preact";
import { part, type Page } from "../../api/http";
import type { Plan, PlanTask } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Markdown } from "../../lib/markdown";
import { useLive, useResource, useThrottled } from "../../lib/resource";
import { adjust, type Route } from "../../lib/router";
import { Moment } from "../../lib/time";
import { named, t } from "../../lib/words";
import { Badge, Empty, ErrorBox, Facts, Loading, type Tone } from "../../ui/basics";
import { Progress, Tasks, Thoughts, type Task } from "./parts";

const MOST = 1000;
/** Tasks take time to be told: what happens in quick succession is drawn once. */
const PAUSE_MS = 300;

/** What is stored of the tasks, with what the plan knows beyond it. */
function joined(tasks: PlanTask[], plan: Plan | null): Task[] {
  const made = new Map(plan?.decomposition?.tasks.map((each) => [each.task_id, each]));
  const results = new Map(plan?.results.map((each) => [each.task_id, each]));
  return tasks.map((task) => ({
    ...task,
    description: task.description ?? made.get(task.task_id)?.description ?? null,
    parameters: made.get(task.task_id)?.parameters ?? {},
    depends_on: made.get(task.task_id)?.depends_on ?? task.depends_on,
    data: results.get(task.task_id)?.data,
    error: task.error ?? results.get(task.task_id)?.error ?? null,
  }));
}

function Phase({ phase }: { phase: Plan["phase"] }): VNode {
  const tone: Tone = phase === "completed" ? "good" : phase === "failed" ? "bad" : "busy";
  return <Badge tone={tone}>{named("plans", phase === "failed" ? "phase_failed" : phase)}</Badge>;
}

function Whole({ plan, first }: { plan: Plan | null; first: PlanTask }): VNode {
  return (
    <div class="plan-facts">
      <Facts
        rows={[
          [t("plans.phase"), plan && <span role="status"><Phase phase={plan.phase} /></span>],
          [t("plans.supervisor"), first.supervisor && <Plain text={first.supervisor} />],
          [t("plans.started"), <Moment at={first.planned_at} />],
          [t("plans.request"), plan && <span class="words"><Plain text={plan.user_input} /></span>],
        ]}
      />
    </div>
  );
}

function Outcome({ plan }: { plan: Plan }): VNode {
  return (
    <>
      {plan.final_response !== null && (
        <section aria-label={t("plans.answer")}>
          <h3>{t("plans.answer")}</h3>
          <div class="card">
            <Markdown text={plan.final_response} />
          </div>
        </section>
      )}
      {plan.error !== null && (
        <div class="notice bad">
          <Markdown text={plan.error} />
        </div>
      )}
      {plan.decomposition && <Thoughts reasoning={plan.decomposition.reasoning} notes={plan.decomposition.notes} />}
    </>
  );
}

export function PlanTab({ id, route }: { id: string; route: Route }): VNode {
  const tasks = useResource<Page<PlanTask>>("/tasks", { session_id: id, limit: MOST });
  const first = tasks.data?.items[0];
  const plan = useResource<Plan>(first ? `/sessions/${part(id)}/plan` : null);
  const later = useThrottled(() => {
    tasks.reload();
    plan.reload();
  }, PAUSE_MS);
  useLive({ sessions: [id] }, later, later);
  const isEarlier = plan.error?.status === 404;
  const error = tasks.error ?? (isEarlier ? null : plan.error);
  const own = tasks.data?.items.filter((task) => task.plan === first?.plan) ?? [];
  const all = joined(own, isEarlier ? null : plan.data);
  return (
    <>
      <h2>{t("common.plan")}</h2>
      {error && <ErrorBox error={error} retry={later} />}
      {!tasks.data && !error && <Loading />}
      {tasks.data && !first && <Empty>{t("plans.none")}</Empty>}
      {first && (
        <>
          {isEarlier && <p class="notice wait">{t("plans.earlier")}</p>}
          <Whole plan={isEarlier ? null : plan.data} first={first} />
          <Progress tasks={all} />
          <Tasks tasks={all} chosen={route.query.get("task")} choose={(task) => adjust({ task })} />
          {plan.data && !isEarlier && <Outcome plan={plan.data} />}
        </>
      )}
    </>
  );
}
