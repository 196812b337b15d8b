/** Errors first: what went wrong and what is waited for, with a way to each. */
import type { VNode } from "preact";
import { Plain } from "../../lib/hidden";
import { named } from "../../lib/words";
import { shortened } from "../../graph/widths";
import { SIGNS } from "../../ui/basics";
import { marks } from "./row";
import type { Row } from "./tree";

const MOST = 100;
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
  if (!rows.length) return null;
  return (
    <section class={`notice problems ${tone}`} aria-label={title}>
      <h2>
        <span aria-hidden="true">{SIGNS[tone]}</span> {title}
      </h2>
      <ul class="plain">
        {rows.slice(0, MOST).map((row) => (
          <li key={row.span.span_id}>
            <button type="button" class="quiet" onClick={() => jump(row.span.span_id)}>
              <b>
                <Plain text={row.span.name} />
              </b>{" "}
              <small>{[named("trace", `kind_${row.span.kind}`), ...marks(row)].join(" · ")}</small>{" "}
              <Plain text={why(row)} />
            </button>
          </li>
        ))}
      </ul>
    </section>
  );
}
