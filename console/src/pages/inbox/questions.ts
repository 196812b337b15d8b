/** The questions that are shown: read from the server, and followed as they come and go. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { LiveMessage } from "../../api/live";
import { useLive, usePages, useThrottled, type Pages } from "../../lib/resource";
import { byUrgency, type Item } from "./item";

export type View = "waiting" | "notices" | "snoozed" | "closed";

const CLOSING = new Set(["inbox.answered", "inbox.expired", "inbox.cancelled"]);
const MOST = 1000;

export interface Filters {
  role: string;
  assignee: string;
  kind: string;
  agent: string;
  text: string;
}

export interface Questions {
  pages: Pages<Item>;
  /** Those of the view, in the order in which they are to be answered. */
  shown: Item[];
  /** All open ones, in whatever view. */
  all: Item[];
  counts: Record<Exclude<View, "closed">, number>;
  /** Those that were closed since the list was read. */
  gone: ReadonlySet<string>;
  isBusy: boolean;
}

const viewOf = (item: Item, now: number): Exclude<View, "closed"> => {
  if (item.snoozed_until_us !== null && item.snoozed_until_us > now) return "snoozed";
  return item.notice ? "notices" : "waiting";
};

const isSame = (a: readonly Item[], b: readonly Item[]): boolean => a.length === b.length && a.every((each, index) => each === b[index]);

/** Those that were closed since the list was read; those that no list will show again are forgotten. */
function useGone(list: readonly Item[], chosen: string | undefined): [ReadonlySet<string>, (closed: string[]) => void] {
  const [gone, setGone] = useState<ReadonlySet<string>>(new Set());
  const before = useRef(gone);
  useEffect(() => {
    // A list is read after the one before it has come: it knows of what was closed by then.
    const kept = new Set([chosen, ...list.map((each) => each.id)]);
    const known = before.current;
    before.current = gone;
    const isOld = (each: string): boolean => known.has(each) && !kept.has(each);
    if ([...gone].some(isOld)) setGone((now) => new Set([...now].filter((each) => !isOld(each))));
  }, [list]);
  return [gone, (closed) => setGone((now) => new Set([...now, ...closed].slice(-5 * MOST)))];
}

/** `assignee` is `me`, `nobody` or everybody's; the one that is `chosen` may be in no list. */
export function useQuestions(view: View, filters: Filters, me: string, chosen: string | undefined): Questions {
  const isClosed = view === "closed";
  const query = {
    ...filters,
    // The empty name stands for nobody; a list is sent even if it is empty.
    assignee: filters.assignee === "me" ? [me] : filters.assignee === "nobody" ? [""] : null,
    status: isClosed ? "closed" : "open",
    snoozed: true,
  };
  const pages = usePages<Item>("/inbox", query, isClosed ? 50 : MOST);
  const read = useRef<Item[]>([]);
  const wasClosed = useRef(isClosed);
  if (wasClosed.current !== isClosed) read.current = [];
  wasClosed.current = isClosed;
  if (pages.data && !isSame(pages.data, read.current)) read.current = pages.data;
  const list = read.current;
  const [gone, close] = useGone(list, chosen);
  const later = useThrottled(pages.reload, list.length > 200 ? 2000 : 300);
  const deliver = (batch: LiveMessage[]): void => {
    const closed = batch.filter((each) => CLOSING.has(each.type)).map((each) => String(each.data.item));
    if (closed.length) close(closed);
    later();
  };
  useLive({ inbox: true }, deliver, later);
  const found = useMemo(() => {
    const now = Date.now() * 1000;
    const all = isClosed ? list : list.filter((each) => !gone.has(each.id)).sort(byUrgency);
    const counts = { waiting: 0, notices: 0, snoozed: 0 };
    if (!isClosed) for (const each of all) counts[viewOf(each, now)]++;
    return { all, counts, shown: isClosed ? all : all.filter((each) => viewOf(each, now) === view) };
  }, [list, gone, view, isClosed]);
  return { pages, gone, isBusy: !pages.data && !pages.error, ...found };
}
