/** The list of questions, and how it is narrowed down. */
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { Plain } from "../../lib/hidden";
import { link } from "../../lib/router";
import { Moment } from "../../lib/time";
import { named, t, type Word } from "../../lib/words";
import { useMay } from "../../session";
import { Empty, ErrorBox, Loading, More } from "../../ui/basics";
import { Choice, Typed } from "../../ui/filtering";
import { LongList } from "../../ui/long_list";
import { QUESTIONS } from "../../ui/state";
import { Countdown, Urgency } from "./detail";
import { isMisleading, type Act, type Item } from "./item";
import type { Filters, Questions, View } from "./questions";
import { Tick } from "./tick";

const KINDS = ["confirmation", "approval", "escalation", "routing", "rollback_failed", "handoff"];
const ROW = 78;

/** Names that were seen stay to be chosen, also while only one of them is shown. */
function useSeen(names: string[], chosen: string): [string, string][] {
  const seen = useRef(new Set<string>());
  for (const each of names) seen.current.add(each);
  if (chosen) seen.current.add(chosen);
  return [...seen.current].sort().map((each) => [each, each]);
}

interface FilterProps {
  filters: Filters;
  all: Item[];
  input: { current: HTMLInputElement | null };
}

function FilterBar({ filters, all, input }: FilterProps): VNode {
  const roles = useSeen(all.map((each) => each.role), filters.role);
  const agents = useSeen(all.map((each) => each.from_agent), filters.agent);
  return (
    <div class="filters" role="search">
      <Typed name="text" label={t("common.search")} value={filters.text} longest={500} input={input} />
      <Choice name="assignee" label={t("inbox.assignee")} value={filters.assignee} options={[["me", t("inbox.mine")], ["nobody", t("inbox.nobodys")]]} />
      <Choice name="kind" label={t("inbox.kind")} value={filters.kind} options={KINDS.map((each) => [each, named("inbox", each)])} />
      <Choice name="role" label={t("inbox.role")} value={filters.role} options={roles} />
      <Choice name="agent" label={t("common.agent")} value={filters.agent} options={agents} />
    </div>
  );
}

/** How a question ended, in a few words: a default that was taken is nobody's answer. */
function endText({ status, answer, closed_by: by }: Item): string {
  const said = answer?.choice || answer?.text || "";
  const detail = status === "expired" ? said && t("inbox.by_default", { said }) : said || by;
  return [t(QUESTIONS[status][1]), detail].filter(Boolean).join(" · ");
}

interface RowProps {
  item: Item;
  href: string;
  isChosen: boolean;
  /** `null`: nothing can be selected. */
  isSelected: boolean | null;
  toggle: () => void;
  open: () => void;
}

function Row({ item, href, isChosen, isSelected, toggle, open }: RowProps): VNode {
  return (
    <div class={isChosen ? "line now" : "line"}>
      {isSelected !== null && (
        <Tick class="tick" checked={isSelected} set={toggle}>
          <span class="hidden">{t("inbox.select", { subject: item.subject })}</span>
        </Tick>
      )}
      <a href={href} aria-current={isChosen ? "true" : undefined} onClick={open}>
        <strong><Plain text={item.subject} /></strong>
        <span class="muted">
          {named("inbox", item.kind)} · <Plain text={item.from_agent} /> · <Moment at={(item.closed_at_us ?? item.created_at_us) / 1e6} />
        </span>
        <span>
          <Urgency item={item} /> {isMisleading(item) && <span class="badge bad">⚠ {t("inbox.misleading_short")}</span>}{" "}
          <Countdown item={item} />{" "}
          <span class="muted">
            <Plain text={item.status === "open" ? (item.assignee ?? item.role) : endText(item)} />
          </span>
        </span>
      </a>
    </div>
  );
}

const BULK: Act[] = ["approve", "reject", "snooze", "assign"];

function Bulk({ count, act, clear }: { count: number; act: (act: Act) => void; clear: () => void }): VNode {
  return (
    <div class="card row bulk" role="group" aria-label={t("inbox.bulk")}>
      <strong role="status">{t("inbox.n_selected", { n: count })}</strong>
      {BULK.map((each) => (
        <button type="button" key={each} onClick={() => act(each)}>
          {t("inbox.dots", { text: t(`inbox.${each}_now` as Word) })}
        </button>
      ))}
      <button type="button" class="quiet" onClick={clear}>{t("inbox.clear")}</button>
    </div>
  );
}

interface Props {
  view: View;
  filters: Filters;
  query: Record<string, string>;
  questions: Questions;
  search: { current: HTMLInputElement | null };
  picked: Item[];
  selected: ReadonlySet<string>;
  setSelected: (ids: ReadonlySet<string>) => void;
  toggle: (id: string) => void;
  chosen: string | undefined;
  open: () => void;
  act: (act: Act) => void;
}

export function QuestionList(props: Props): VNode {
  const { view, filters, query, questions, picked, selected, setSelected, toggle, chosen, open } = props;
  const { shown, pages, isBusy } = questions;
  const maySelect = useMay("answer") && view !== "closed";
  const row = (item: Item): VNode => (
    <Row
      item={item}
      href={link(["inbox", item.id], query)}
      isChosen={item.id === chosen}
      isSelected={maySelect ? selected.has(item.id) : null}
      toggle={() => toggle(item.id)}
      open={open}
    />
  );
  const nothing: Word = Object.values(filters).some(Boolean) ? "inbox.none_found" : `inbox.none_${view}`;
  return (
    <div class="questions" aria-busy={isBusy}>
      <FilterBar filters={filters} all={questions.all} input={props.search} />
      {pages.error && <ErrorBox error={pages.error} retry={pages.reload} />}
      {maySelect && shown.length > 1 && (
        <Tick class="every" checked={picked.length === shown.length} set={(all) => setSelected(new Set(all ? shown.map((each) => each.id) : []))}>
          {t("inbox.select_all", { n: shown.length })}
        </Tick>
      )}
      {picked.length > 0 && <Bulk count={picked.length} act={props.act} clear={() => setSelected(new Set())} />}
      {shown.length > 0 ? (
        <LongList
          items={shown}
          rowHeight={ROW}
          label={t("inbox.questions")}
          row={row}
          keyOf={(item) => item.id}
          reveal={shown.findIndex((each) => each.id === chosen)}
        />
      ) : (
        !pages.error && (isBusy ? <Loading /> : <Empty>{t(nothing)}</Empty>)
      )}
      {pages.more && view !== "closed" && <p class="muted">{t("inbox.older_wait")}</p>}
      <More more={pages.more} busy={pages.isLoadingMore} />
    </div>
  );
}
