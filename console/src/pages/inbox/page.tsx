/** The inbox: what waits for people, and their answers. */
import type { VNode } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { part } from "../../api/http";
import { useShortcuts, type Shortcut } from "../../lib/keys";
import { useResource } from "../../lib/resource";
import { link, parseRoute, type Route } from "../../lib/router";
import { t, type Word } from "../../lib/words";
import { useMay, useMe } from "../../session";
import { Empty, ErrorBox } from "../../ui/basics";
import { Tabs } from "../../ui/tabs";
import { ActingDialog } from "./acting";
import { NO_EXTRA, useDeciding, type Deciding } from "./deciding";
import { Detail } from "./detail";
import { identical, type Act, type Item } from "./item";
import { QuestionList } from "./list";
import { useQuestions, type Filters, type Questions, type View } from "./questions";

/** So soon after a decision, a key is meant for the question that was there before. */
const UNREAD_MS = 600;

const VIEWS: View[] = ["waiting", "notices", "snoozed", "closed"];

function filtersOf(query: URLSearchParams): Filters {
  const of = (name: string): string => query.get(name) ?? "";
  return { role: of("role"), assignee: of("assignee"), kind: of("kind"), agent: of("agent"), text: of("text") };
}

/** The chosen question: from the list, or by itself if it is in none. */
function useChosen(id: string | undefined, { all }: Questions): { item: Item | null; error: VNode | null } {
  const listed = all.find((each) => each.id === id);
  const alone = useResource<Item>(id && !listed ? `/inbox/${part(id)}` : null);
  const last = useRef<Item | null>(null);
  const now = alone.data ?? listed;
  if (now) last.current = now;
  const item = last.current?.id === id ? last.current : null;
  const before = useRef(all);
  // The list was read again because something changed: perhaps this one.
  useEffect(() => {
    if (before.current !== all && id && !listed) alone.reload();
    before.current = all;
  }, [all]);
  return { item, error: alone.error && !item ? <ErrorBox error={alone.error} retry={alone.reload} /> : null };
}

interface Keys {
  deciding: Deciding;
  /** When a decision brought the next question. */
  moved: { current: number };
  picked: Item[];
  move: (by: number) => void;
  select: () => void;
  search: () => void;
}

function useKeys({ deciding, moved, picked, move, select, search }: Keys): void {
  const mayAnswer = useMay("answer");
  const key = (name: string, word: Word, run: Shortcut["run"]): Shortcut => ({ key: name, word, run });
  // A key that is held down decides once, not one question after the other.
  const once = (act: Act) => (event: KeyboardEvent): void => {
    if (event.repeat || performance.now() - moved.current < UNREAD_MS) return;
    if (picked.length && act !== "edit") deciding.actOnMany(act, picked);
    else deciding.act(act);
  };
  const decisions = [
    key("a", "inbox.key_approve", once("approve")),
    key("r", "inbox.key_reject", once("reject")),
    key("e", "inbox.key_edit", once("edit")),
    key("s", "inbox.key_snooze", once("snooze")),
    key("x", "inbox.key_select", select),
  ];
  useShortcuts([
    key("j", "inbox.key_next", () => move(1)),
    key("k", "inbox.key_previous", () => move(-1)),
    ...(mayAnswer ? decisions : []),
    key("/", "inbox.key_search", search),
  ]);
}

function Views({ view, query, counts }: { view: View; query: Record<string, string>; counts: Questions["counts"] }): VNode {
  const tabs = VIEWS.map((each) => ({
    name: each,
    href: link(["inbox"], { ...query, view: each === "waiting" ? null : each }),
    label: t(`inbox.view_${each}`) + (each !== "closed" && counts[each] ? ` (${counts[each]})` : ""),
  }));
  return <Tabs label={t("inbox.views")} current={view} tabs={tabs} />;
}

export function InboxPage({ route }: { route: Route }): VNode {
  const me = useMe();
  const view = VIEWS.find((each) => each === route.query.get("view")) ?? "waiting";
  const filters = filtersOf(route.query);
  const query = Object.fromEntries(route.query);
  const id = route.path[1];
  const questions = useQuestions(view, filters, me.name, id);
  const { shown, all, gone } = questions;
  const { item, error } = useChosen(id, questions);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [ticked, setTicked] = useState({ id, extra: NO_EXTRA });
  const focus = useRef(false);
  const moved = useRef(-UNREAD_MS);
  const search = useRef<HTMLInputElement>(null);
  const picked = shown.filter((each) => selected.has(each.id));
  const extra = ticked.id === id ? ticked.extra : NO_EXTRA;
  const choose = (next: string | undefined): void => {
    focus.current = true;
    history.replaceState(null, "", link(next ? ["inbox", next] : ["inbox"], query));
    window.dispatchEvent(new HashChangeEvent("hashchange"));
  };
  const deciding = useDeciding(item, questions, extra, (items, next, isOpen) => {
    const done = new Set(items.map((each) => each.id));
    setSelected((now) => new Set([...now].filter((each) => !done.has(each))));
    // Whoever has moved on meanwhile stays there.
    if (isOpen || !done.has(parseRoute(location.hash).path[1] ?? "")) return;
    moved.current = performance.now();
    const left = shown.filter((each) => !done.has(each.id));
    choose((left.find((each) => each.id === next) ?? left[0])?.id);
  });
  const toggle = (one: string): void => {
    const next = new Set(selected);
    if (!next.delete(one)) next.add(one);
    setSelected(next);
  };
  const move = (by: number): void => {
    const index = shown.findIndex((each) => each.id === id);
    const next = shown[index < 0 ? 0 : Math.max(0, Math.min(shown.length - 1, index + by))];
    if (next && next.id !== id) choose(next.id);
  };
  const same = useMemo(() => (item ? identical(item, all) : 0), [item, all]);
  useKeys({ deciding, moved, picked, move, select: () => item && toggle(item.id), search: () => search.current?.focus() });
  const { acting } = deciding;
  return (
    <>
      <h1>{t("common.inbox")}</h1>
      <Views view={view} query={query} counts={questions.counts} />
      <div class={`inbox ${id ? "chosen" : ""}`}>
        <QuestionList
          {...{ view, filters, query, questions, search, picked, selected, setSelected, toggle }}
          chosen={id}
          open={() => (focus.current = true)}
          act={(wanted) => deciding.actOnMany(wanted, picked)}
        />
        <div class="one">
          {id && <p class="back"><a href={link(["inbox"], query)}>← {t("inbox.back")}</a></p>}
          {error}
          {item && (
            <Detail
              key={item.id}
              {...{ item, extra, focus, same }}
              setExtra={(now) => setTicked({ id, extra: now })}
              act={deciding.act}
              busy={deciding.isBusy || acting !== null}
              isGone={gone.has(item.id)}
            />
          )}
          {!id && shown.length > 0 && <Empty>{t("inbox.choose")}</Empty>}
        </div>
      </div>
      {acting && (
        <ActingDialog
          {...acting}
          now={acting.items[0]!.id === item?.id ? item : null}
          people={[...new Set(all.flatMap((each) => each.assignee ?? []))]}
          onClose={deciding.close}
          onDone={deciding.done}
        />
      )}
    </>
  );
}
