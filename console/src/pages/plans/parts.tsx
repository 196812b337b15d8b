/** Tasks of plans: their graph, their progress, and one of them in detail. */
import type { VNode } from "preact";
import { Choosing, Line, Part } from "../../graph/choice";
import { Drawing } from "../../graph/drawing";
import { Plain } from "../../lib/hidden";
import { Code, Markdown } from "../../lib/markdown";
import { link } from "../../lib/router";
import { duration, Moment } from "../../lib/time";
import { t } from "../../lib/words";
import { Facts, pretty, SIGNS } from "../../ui/basics";
import { LookBadge, TASKS, type TaskStatus as Status } from "../../ui/state";

/** A task with all that is known of it. */
export interface Task {
  task_id: string;
  agent: string;
  description: string | null;
  depends_on: string[];
  status?: Status;
  attempts?: number;
  started_at?: number | null;
  ended_at?: number | null;
  error?: string | null;
  sessions?: string[];
  parameters?: Record<string, unknown>;
  /** What its agent gave; `undefined`: nothing is known of it. */
  data?: unknown;
}

/** How the box of a task looks. */
const BOXES: Record<Status, string> = { pending: "", running: "busy", done: "done", failed: "bad", stopped: "wait" };

export function TaskBadge({ status }: { status: Status }): VNode {
  return <LookBadge look={TASKS[status]} />;
}

/** How many are done, in words and as a bar. */
export function Progress({ tasks }: { tasks: readonly { status?: Status }[] }): VNode {
  const many = (...wanted: Status[]): number => tasks.filter(({ status }) => status && wanted.includes(status)).length;
  const [done, failed, stopped, open] = [many("done"), many("failed"), many("stopped"), many("pending", "running")];
  const words = [
    t("plans.progress", { done, n: tasks.length }),
    failed > 0 && t("plans.n_failed", { n: failed }),
    stopped > 0 && t("plans.n_stopped", { n: stopped }),
    open > 0 && t("plans.n_open", { n: open }),
  ];
  return (
    <div class="progress">
      <div class="progress-bar" aria-hidden="true">
        {[["done", done], ["bad", failed], ["stopped", stopped], ["busy", many("running")]].map(([look, n]) => (
          <span key={look} class={String(look)} style={{ flexGrow: Number(n) }} />
        ))}
        <span style={{ flexGrow: many("pending") }} />
      </div>
      <span>{words.filter(Boolean).join(" · ")}</span>
    </div>
  );
}

function TaskDetails({ task }: { task: Task }): VNode {
  const { started_at: began, ended_at: ended, parameters = {}, data = null } = task;
  return (
    <>
      <Facts
        rows={[
          [t("common.status"), task.status && <TaskBadge status={task.status} />],
          [t("common.agent"), <Plain text={task.agent} />],
          [t("plans.attempts"), task.attempts],
          [t("plans.needs"), task.depends_on.length > 0 && <Plain text={task.depends_on.join(", ")} />],
          [t("plans.started"), began && <Moment at={began} />],
          [t("plans.ended"), ended && <Moment at={ended} />],
          [t("plans.took"), began && ended && duration((ended - began) * 1000)],
        ]}
      />
      {task.error && (
        <div class="notice bad">
          <Markdown text={task.error} />
        </div>
      )}
      <Part word="plans.description">
        <p class="words">{task.description === null ? <span class="muted">{t("plans.not_recorded")}</span> : <Plain text={task.description} />}</p>
      </Part>
      <Part word="plans.parameters">{Object.keys(parameters).length > 0 && <Code text={pretty(parameters)} />}</Part>
      <Part word="plans.result">{data !== null && (typeof data === "string" ? <Markdown text={data} /> : <Code text={pretty(data)} />)}</Part>
      {task.sessions?.map((session) => (
        <p key={session}>
          {t("plans.work")}: <a href={link(["sessions", session])}>{session}</a>
        </p>
      ))}
    </>
  );
}

interface Props {
  tasks: Task[];
  chosen: string | null;
  choose: (id: string | null) => void;
}

/** The tasks drawn and as a list, and the one that is chosen. */
export function Tasks({ tasks, chosen, choose }: Props): VNode {
  const known = new Set(tasks.map((task) => task.task_id));
  const task = tasks.find((each) => each.task_id === chosen);
  const id = task?.task_id ?? null;
  const boxes = tasks.map(({ task_id: id, agent, description, status }) => {
    const sign = status ? `${SIGNS[TASKS[status][0]]} ` : "";
    const title = [agent, status && t(TASKS[status][1]), description ?? id].filter(Boolean).join(", ");
    return { id, label: `${sign}${agent}`, note: description ?? id, look: status ? BOXES[status] : "", title };
  });
  const arrows = tasks.flatMap(({ task_id: to, depends_on }) =>
    depends_on.filter((from) => known.has(from)).map((from) => ({ id: `${from} → ${to}`, from, to, title: `${from} → ${to}`, isInert: true })),
  );
  return (
    <Choosing
      title={task ? `${task.task_id} · ${task.agent}` : null}
      details={task && <TaskDetails task={task} />}
      chosen={id ?? ""}
      clear={() => choose(null)}
      drawing={<Drawing label={t("plans.drawing")} boxes={boxes} arrows={arrows} boxWidth={210} chosen={id} onChoose={choose} reveal={id} />}
      word="plans.tasks"
      lines={tasks.map((each) => (
        <Line
          key={each.task_id}
          isChosen={each === task}
          choose={() => choose(each.task_id)}
          who={<Plain text={each.agent} />}
          badge={each.status && <TaskBadge status={each.status} />}
          why={each.description ?? each.task_id}
        />
      ))}
    />
  );
}

/** Why a request was split so, and what was changed about it. */
export function Thoughts({ reasoning, notes }: { reasoning: string; notes: string[] }): VNode {
  return (
    <>
      {reasoning && (
        <>
          <h3>{t("plans.reasoning")}</h3>
          <Markdown text={reasoning} />
        </>
      )}
      {notes.length > 0 && (
        <>
          <h3>{t("plans.notes")}</h3>
          <ul>
            {notes.map((note) => (
              <li key={note}>
                <Plain text={note} />
              </li>
            ))}
          </ul>
        </>
      )}
    </>
  );
}
