/** Type a request and see who would get it, and why; then send it, or not. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { ApiError, post } from "../../api/http";
import type { RouteModel, RunModel } from "../../api/types";
import { adjust, go, type Route } from "../../lib/router";
import { named, t } from "../../lib/words";
import { ErrorBox, Loading } from "../../ui/basics";
import { attempt } from "../../ui/toasts";
import { Decision } from "./decision";

const STRATEGIES = ["rule", "semantic", "llm", "hybrid"];
const LONGEST_IN_ADDRESS = 500;

type State = { is: "none" } | { is: "busy" } | { is: "failed"; error: ApiError } | { is: "done"; text: string; route: RouteModel };

export function Playground({ route }: { route: Route }): VNode {
  const [text, setText] = useState(route.query.get("text") ?? "");
  const strategy = route.query.get("strategy") ?? "";
  const [state, setState] = useState<State>({ is: "none" });
  const chosen = strategy ? { strategy } : {};
  const ask = async (): Promise<void> => {
    if (!text.trim() || state.is === "busy") return;
    adjust({ text: text.length > LONGEST_IN_ADDRESS ? null : text });
    setState({ is: "busy" });
    try {
      setState({ is: "done", text, route: await post<RouteModel>("/route", { text, ...chosen }) });
    } catch (error) {
      setState({ is: "failed", error: error instanceof ApiError ? error : new ApiError(0, "", String(error)) });
    }
  };
  const send = (): Promise<boolean> =>
    attempt(async () => {
      // Whoever was shown to get it gets it; else the router decides now.
      const shown = state.is === "done" && state.text === text ? state.route : null;
      const to = shown?.agent ? { agent: shown.agent } : { agent: "auto", ...chosen };
      const input = shown?.method === "named" ? text.replace(/^\s*@\S+\s+/, "") : text;
      const run = await post<RunModel>("/runs", { input, background: true, ...to });
      go(["sessions", run.session_id]);
    });
  return (
    <>
      <form
        class="playground"
        onSubmit={(event) => {
          event.preventDefault();
          void ask();
        }}
      >
        <label>
          {t("agents.request")}
          <textarea
            dir="auto"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
              event.preventDefault();
              void ask();
            }}
          />
        </label>
        <div class="filters">
          <label>
            {t("agents.strategy")}
            <br />
            <select value={strategy} onChange={(event) => adjust({ strategy: event.currentTarget.value })}>
              <option value="">{t("agents.as_set")}</option>
              {STRATEGIES.map((each) => (
                <option key={each} value={each}>
                  {named("agents", `strategy_${each}`)}
                </option>
              ))}
            </select>
          </label>
          <button type="submit" class="primary" disabled={!text.trim() || state.is === "busy"}>
            {t("agents.who_gets_it")}
          </button>
          <button type="button" disabled={!text.trim()} onClick={() => void send()}>
            {t("agents.send")}
          </button>
        </div>
      </form>
      <div aria-live="polite">
        {state.is === "busy" && <Loading />}
        {state.is === "failed" && <ErrorBox error={state.error} retry={() => void ask()} />}
        {state.is === "done" && <Decision text={state.text} route={state.route} />}
      </div>
    </>
  );
}
