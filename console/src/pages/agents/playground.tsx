/** Type a request and see who would get it, and why. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { post, type ApiError } from "../../api/http";
import type { RouteAnalysis } from "../../api/types";
import { asError } from "../../lib/resource";
import { adjust, type Route } from "../../lib/router";
import { named, t } from "../../lib/words";
import { ErrorBox } from "../../ui/basics";
import { Choice } from "../../ui/filtering";
import { TextField } from "../../ui/text_field";
import { Decision } from "./decision";

const STRATEGIES = ["rule", "semantic", "llm", "hybrid"];
const LONGEST_IN_ADDRESS = 500;

interface Answer {
  route?: RouteAnalysis;
  error?: ApiError;
}

export function Playground({ route }: { route: Route }): VNode {
  const [text, setText] = useState(route.query.get("text") ?? "");
  const strategy = route.query.get("strategy") ?? "";
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [isBusy, setBusy] = useState(false);
  const isEmpty = !text.trim();
  const ask = async (): Promise<void> => {
    if (isEmpty || isBusy) return;
    adjust({ text: text.length > LONGEST_IN_ADDRESS ? null : text });
    setBusy(true);
    try {
      setAnswer({ route: await post<RouteAnalysis>("/route", { text, strategy: strategy || null }) });
    } catch (error) {
      setAnswer({ error: asError(error) });
    }
    setBusy(false);
  };
  return (
    <>
      <form class="playground" onSubmit={(event) => (event.preventDefault(), void ask())}>
        <TextField label={t("agents.request")} value={text} change={setText} send={() => void ask()} />
        <div class="filters">
          <Choice name="strategy" label={t("agents.strategy")} value={strategy} none={t("agents.as_set")} options={STRATEGIES.map((each) => [each, named("agents", `strategy_${each}`)])} />
          <button type="submit" class="primary" disabled={isEmpty || isBusy}>
            {t("agents.who_gets_it")}
          </button>
        </div>
      </form>
      <div aria-live="polite" aria-busy={isBusy}>
        {answer?.error && <ErrorBox error={answer.error} />}
        {answer?.route && <Decision route={answer.route} />}
      </div>
    </>
  );
}
