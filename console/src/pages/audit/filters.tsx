/** Which records are shown; what is chosen stands in the address. */
import type { VNode } from "preact";
import { adjust } from "../../lib/router";
import { named, t } from "../../lib/words";
import { Choice, Typed } from "../../ui/filtering";

export const TYPES = ["handoff", "route", "tool_confirmation", "inbox", "guardrail"];
const MOVES = ["initiated", "validating", "transferring", "completed", "failed", "rolled_back"];

/** What the server is asked, by what stands in the address. */
export function asked(query: URLSearchParams): Record<string, string> {
  const result: Record<string, string> = {};
  for (const name of ["text", "session", "agent", "type", "status"]) result[name] = query.get(name) ?? "";
  for (const name of ["since", "until"]) {
    // The address has the reader's clock, the server the world's.
    const date = new Date(query.get(name) ?? "");
    if (!Number.isNaN(date.getTime())) result[name] = date.toISOString();
  }
  return result;
}

function When({ name, label, value }: { name: string; label: string; value: string }): VNode {
  return (
    <label>
      {label}
      <input type="datetime-local" value={value} onChange={(event) => adjust({ [name]: event.currentTarget.value })} />
    </label>
  );
}

export function AuditFilters({ query }: { query: URLSearchParams }): VNode {
  const of = (name: string): string => query.get(name) ?? "";
  return (
    <div class="filters" role="search">
      <Typed name="text" label={t("common.search")} value={of("text")} />
      <Typed name="session" label={t("common.session")} value={of("session")} />
      <Typed name="agent" label={t("common.agent")} value={of("agent")} />
      <Choice name="type" label={t("audit.type")} value={of("type")} options={TYPES.map((each) => [each, named("audit", `type_${each}`)])} />
      <Choice name="status" label={t("audit.status")} value={of("status")} options={MOVES.map((each) => [each, named("audit", `status_${each}`)])} />
      <When name="since" label={t("audit.since")} value={of("since")} />
      <When name="until" label={t("audit.until")} value={of("until")} />
    </div>
  );
}
