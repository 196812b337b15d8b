/** A request, split as it would be: nothing is run. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { post } from "../../api/http";
import type { PlanPreview } from "../../api/types";
import { adjust, type Route } from "../../lib/router";
import { named, t } from "../../lib/words";
import { Facts } from "../../ui/basics";
import { attempt } from "../../ui/toasts";
import { Tasks, Thoughts } from "./parts";

export function Preview({ route, supervisors }: { route: Route; supervisors: string[] }): VNode {
  const [text, setText] = useState("");
  const [agent, setAgent] = useState("");
  const [found, setFound] = useState<PlanPreview | null>(null);
  const [isBusy, setBusy] = useState(false);
  const ask = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    adjust({ task: null });
    await attempt(async () => setFound(await post<PlanPreview>("/plans/preview", { text, ...(agent ? { agent } : {}) })));
    setBusy(false);
  };
  return (
    <details class="card" open={found !== null || undefined}>
      <summary>{t("plans.try")}</summary>
      <form onSubmit={(event) => void ask(event)}>
        <label>
          {t("plans.request")}
          <textarea value={text} maxLength={100_000} required onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <div class="filters">
          {supervisors.length > 0 && (
            <label>
              {t("plans.supervisor")}
              <select value={agent} onChange={(event) => setAgent(event.currentTarget.value)}>
                <option value="">{t("plans.any_supervisor")}</option>
                {supervisors.map((name) => (
                  <option key={name} value={name}>
                    {name}
                  </option>
                ))}
              </select>
            </label>
          )}
          <button type="submit" class="primary" disabled={isBusy || !text.trim()}>
            {t("plans.split")}
          </button>
        </div>
        <p class="muted">{t("plans.try_help")}</p>
      </form>
      <div aria-live="polite">
        {found && (
          <>
            <Facts rows={[[t("plans.method"), named("plans", `by_${found.method}`)]]} />
            <Tasks tasks={found.tasks} chosen={route.query.get("task")} choose={(task) => adjust({ task })} />
            <Thoughts reasoning={found.reasoning} notes={found.notes} />
          </>
        )}
      </div>
    </details>
  );
}
