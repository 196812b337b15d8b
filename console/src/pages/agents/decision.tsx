/** Who would get a request, how each did, and what each stage said. */
import type { VNode } from "preact";
import type { RouteAnalysis, RouteScore } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { duration } from "../../lib/time";
import { named, t } from "../../lib/words";
import { Badge } from "../../ui/basics";
import { Who } from "./load";

function Score({ score, isFirst }: { score: RouteScore; isFirst: boolean }): VNode {
  const matched = [...(score.matched_keywords ?? []), ...(score.matched_patterns ?? [])];
  return (
    <li class={isFirst ? "score first" : "score"}>
      <span>
        {isFirst && <span aria-hidden="true">✓ </span>}
        <Who name={score.agent} />
      </span>
      <span class="score-bar" role="img" aria-label={t("agents.sure", { n: score.confidence })}>
        <span style={{ width: `${Math.min(100, Math.max(0, score.confidence))}%` }} />
      </span>
      <span class="number">{score.confidence} %</span>
      <span class="why">
        {named("agents", `method_${score.method}`)}, {t("agents.score", { n: Math.round(score.score * 100) / 100 })}
        {matched.map((each) => (
          <>
            {" "}
            <code>
              <Plain text={each} />
            </code>
          </>
        ))}
      </span>
    </li>
  );
}

function Stages({ route }: { route: RouteAnalysis }): VNode | null {
  if (!route.stages.length) return null;
  return (
    <>
      <h3>{t("agents.stages")}</h3>
      <ol class="stages">
        {route.stages.map((stage, at) => (
          <li key={at}>
            <b>{named("agents", `method_${stage.method}`)}</b>{" "}
            <Badge tone={stage.sure ? "good" : "neutral"}>{t(stage.sure ? "agents.is_sure" : "agents.not_sure")}</Badge>{" "}
            {stage.agent && (
              <>
                <Who name={stage.agent} /> {stage.confidence} %{" "}
              </>
            )}
            <small class="muted">{duration(stage.elapsed_ms)}</small>
            <br />
            <Plain text={stage.reason} />
          </li>
        ))}
      </ol>
    </>
  );
}

export function Decision({ route }: { route: RouteAnalysis }): VNode {
  return (
    <section class="card" aria-labelledby="decision">
      <h2 id="decision">
        {route.agent ? (
          <>
            <Who name={route.agent} /> {t("agents.gets_it")}
          </>
        ) : (
          t("agents.nobody")
        )}
      </h2>
      <p>
        <Badge tone={route.agent ? "good" : "neutral"}>{named("agents", `method_${route.method}`)}</Badge> {route.confidence} % · {duration(route.elapsed_ms)} ·{" "}
        {named("agents", `strategy_${route.strategy}`)}
      </p>
      <p>
        <Plain text={route.reason} />
      </p>
      {route.candidates.length > 0 && (
        <>
          <h3>{t("agents.scores")}</h3>
          <ul class="plain scores">
            {route.candidates.map((score) => (
              <Score key={`${score.agent} ${score.method}`} score={score} isFirst={score.agent === route.agent} />
            ))}
          </ul>
        </>
      )}
      <Stages route={route} />
    </section>
  );
}
