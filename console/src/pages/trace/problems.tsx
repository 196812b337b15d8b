/** Errors first: what went wrong and what is waited for, with a way to each. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { Plain } from "../../lib/hidden";
import { named, t } from "../../lib/words";
import { shortened } from "../../graph/drawing";
import type { Row } from "./tree";

const FIRST = 5;
const LONGEST = 160;

function why(row: Row): string {
  const { details, error } = row.span;
  const told = error ?? details?.waiting_for ?? details?.code ?? "";
  return shortened(String(told), LONGEST);
}

interface Props {
  title: string;
  tone: "bad" | "wait";
  rows: Row[];
  jump: (spanId: string) => void;
}

export function Problems({ title, tone, rows, jump }: Props): VNode | null {
  const [isAll, setAll] = useState(false);
  if (!rows.length) return null;
  return (
    <section class={`notice problems ${tone}`} aria-label={title}>
      <h2>
        <span aria-hidden="true">{tone === "bad" ? "✕" : "◔"}</span> {title}
      </h2>
      <ul class="plain">
        {rows.slice(0, isAll ? rows.length : FIRST).map((row) => (
          <li key={row.span.span_id}>
            <button type="button" class="quiet" onClick={() => jump(row.span.span_id)}>
              <b>
                <Plain text={row.span.name} />
              </b>{" "}
              <small>
                {named("trace", `kind_${row.span.kind}`)}
                {row.span.agent_name && row.span.agent_name !== row.span.name && (
                  <>
                    {" · "}
                    <Plain text={row.span.agent_name} />
                  </>
                )}
                {row.attempt > 1 && ` · ${t("trace.attempt", { n: row.attempt })}`}
              </small>{" "}
              <Plain text={why(row)} />
            </button>
          </li>
        ))}
      </ul>
      {rows.length > FIRST && !isAll && (
        <button type="button" onClick={() => setAll(true)}>
          {t("trace.all", { n: rows.length })}
        </button>
      )}
    </section>
  );
}
