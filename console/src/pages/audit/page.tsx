/** The audit: who handed what to whom, who decided and why, and whether that is what was written. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { address, get, part, type Page } from "../../api/http";
import type { AuditEntry } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { useLive, useResource, useThrottled } from "../../lib/resource";
import { link, type Route } from "../../lib/router";
import { t } from "../../lib/words";
import { Empty, ErrorBox, Loading, More } from "../../ui/basics";
import { attempt } from "../../ui/toasts";
import { asked, AuditFilters, TYPES } from "./filters";
import { Records } from "./records";
import { Verify } from "./verify";

const PAGE = 50;

interface Rest {
  key: string;
  items: AuditEntry[];
  next: string | null;
  busy: boolean;
}

/** The newest records, and older ones as they are asked for: what is written never changes. */
function Found({ query }: { query: Record<string, string> }): VNode {
  const key = JSON.stringify(query);
  const first = useResource<Page<AuditEntry>>("/audit/records", { ...query, limit: PAGE });
  const [rest, setRest] = useState<Rest | null>(null);
  const older = rest?.key === key ? rest : null;
  // Whoever reads on is not disturbed by what is new.
  const later = useThrottled(() => older || first.reload(), 1000);
  useLive({ types: TYPES }, later, later);
  if (first.error && !first.data) return <ErrorBox error={first.error} retry={first.reload} />;
  if (!first.data) return <Loading />;
  const records = [...first.data.items, ...(older?.items ?? [])];
  const next = older ? older.next : first.data.next_cursor;
  const more = async (): Promise<void> => {
    const items = older?.items ?? [];
    setRest({ key, items, next, busy: true });
    const went = await attempt(async () => {
      const page = await get<Page<AuditEntry>>("/audit/records", { ...query, limit: PAGE * 2, cursor: next });
      setRest({ key, items: [...items, ...page.items], next: page.next_cursor, busy: false });
    });
    if (!went) setRest({ key, items, next, busy: false });
  };
  return (
    <>
      {records.length ? <Records records={records} /> : <Empty>{t(next ? "audit.none_yet" : "audit.none")}</Empty>}
      <More more={next && !older?.busy ? () => void more() : null} busy={older?.busy ?? false} />
    </>
  );
}

/** One record, or all of one handoff. */
function Chosen({ id }: { id: string }): VNode {
  const found = useResource<Page<AuditEntry>>(`/audit/records/${id.split("/").map(part).join("/")}`);
  return (
    <>
      <p><a href={link(["audit"])}>← {t("audit.all")}</a></p>
      <h2><Plain text={id} /></h2>
      {found.error && <ErrorBox error={found.error} retry={found.reload} />}
      {!found.data && !found.error && <Loading />}
      {found.data && <Records key={id} records={found.data.items} areOpen={found.data.items.length === 1} />}
    </>
  );
}

export function AuditPage({ route }: { route: Route }): VNode {
  const query = asked(route.query);
  const record = route.query.get("record");
  return (
    <div class="audit">
      <h1>{t("common.audit")}</h1>
      <div class="card head">
        <p class="muted">{t("audit.about")}</p>
        <Verify session={query.session ?? ""} />
      </div>
      {record ? (
        <Chosen id={record} />
      ) : (
        <>
          <AuditFilters query={route.query} />
          <p class="export">
            <a href={address("/audit/export", query)} download="audit.jsonl">{t("audit.export")}</a>{" "}
            <span class="muted">{t("audit.export_help")}</span>
          </p>
          <Found query={query} />
        </>
      )}
    </div>
  );
}
