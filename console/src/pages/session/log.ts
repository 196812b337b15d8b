/** The events of a session that are shown: the newest, those that come, and earlier ones on demand. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { get, part, type ApiError, type Page } from "../../api/http";
import type { SessionEvent } from "../../api/types";
import { asError, retryMs } from "../../lib/resource";
import { follow, type Delta } from "./stream";

const NEWEST = 200;
const EARLIER = 400;
const LONGEST_PAGE = 1000;
/** Events before one that is looked for, so that it does not stand alone. */
const AROUND = 20;
const BATCH_MS = 80;
/** So many are kept of what has come, and some more until it is worth dropping them. */
const KEPT = 2000;
const MOST = KEPT + EARLIER;

/** The answer that is being made: drawn by itself, so that nothing else is drawn with each piece. */
export class Draft {
  private readonly texts = new Map<number, string>();
  private readonly watchers = new Set<() => void>();
  private timer = 0;
  isThinking = false;

  get text(): string {
    return [...this.texts.values()].join("\n\n");
  }

  get isEmpty(): boolean {
    return !this.texts.size && !this.isThinking;
  }

  add({ kind, text, index }: Delta): void {
    if (kind === "text") this.texts.set(index, (this.texts.get(index) ?? "") + text);
    else this.isThinking = true;
    this.timer ||= window.setTimeout(() => this.tell(), BATCH_MS);
  }

  clear(): void {
    if (this.isEmpty) return;
    this.texts.clear();
    this.isThinking = false;
    this.tell();
  }

  watch(then: () => void): () => void {
    this.watchers.add(then);
    return () => void this.watchers.delete(then);
  }

  private tell(): void {
    window.clearTimeout(this.timer);
    this.timer = 0;
    for (const each of this.watchers) each();
  }
}

/** All events after `after` up to the one numbered `until`, or to the last. */
async function read(id: string, after: number, until: number, signal: AbortSignal): Promise<SessionEvent[]> {
  const found: SessionEvent[] = [];
  let place = after;
  while (place < until) {
    const limit = Math.min(until - place, LONGEST_PAGE);
    const page = await get<Page<SessionEvent>>(`/sessions/${part(id)}/events`, { after: place, limit }, signal);
    found.push(...page.items);
    place = page.items.at(-1)?.seq ?? until;
  }
  return found;
}

export interface Log {
  events: SessionEvent[] | null;
  error: ApiError | null;
  draft: Draft;
  /** There are earlier ones: read some, or all back to that number. */
  earlier: ((to?: number) => Promise<void>) | null;
  /** Whoever reads at the end needs no more than the newest; the others are earlier ones again. */
  trim: () => void;
  retry: () => void;
}

/** Follow a session that has `total` events by now; the one numbered `wanted` is among those shown. */
export function useLog(id: string, total: number, wanted: number, gone: () => void): Log {
  const [events, setEvents] = useState<SessionEvent[] | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [attempt, setAttempt] = useState(0);
  const [draft] = useState(() => new Draft());
  const stop = useRef(new AbortController());
  const retry = useCallback(() => setAttempt((count) => count + 1), []);
  useEffect(() => {
    const own = (stop.current = new AbortController());
    let leave = (): void => undefined;
    let timer = 0;
    const open = async (): Promise<void> => {
      const newest = Math.max(0, total - NEWEST);
      const start = wanted > 0 ? Math.min(newest, Math.max(0, wanted - AROUND)) : newest;
      try {
        const found = await read(id, start, total, own.signal);
        if (own.signal.aborted) return;
        setEvents(found);
        setError(null);
        leave = listen(id, found.at(-1)?.seq ?? start, draft, setEvents, gone);
      } catch (problem) {
        if (own.signal.aborted) return;
        const failure = asError(problem);
        const ms = retryMs(failure);
        setError(failure);
        if (ms !== null) timer = window.setTimeout(retry, ms);
      }
    };
    void open();
    return () => {
      own.abort();
      window.clearTimeout(timer);
      leave();
    };
  }, [id, attempt]);
  const first = events?.[0]?.seq ?? 1;
  const earlier = useCallback(
    async (to = first - EARLIER) => {
      const before = await read(id, Math.max(0, to - 1), first - 1, stop.current.signal);
      setEvents((old) => (old?.[0]?.seq === first ? [...before, ...old] : old));
    },
    [id, first],
  );
  const trim = useCallback(() => setEvents((old) => (old && old.length > MOST ? old.slice(-KEPT) : old)), []);
  return { events, error, draft, trim, earlier: first > 1 ? earlier : null, retry };
}

type Change = (change: (old: SessionEvent[] | null) => SessionEvent[]) => void;

function listen(id: string, after: number, draft: Draft, change: Change, gone: () => void): () => void {
  let pending: SessionEvent[] = [];
  let timer = 0;
  const giveOut = (): void => {
    window.clearTimeout(timer);
    timer = 0;
    const batch = pending;
    pending = [];
    change((old) => [...(old ?? []), ...batch]);
  };
  const leave = follow(id, after, {
    event: (event) => {
      pending.push(event);
      if (draft.isEmpty) {
        timer ||= window.setTimeout(giveOut, BATCH_MS);
        return;
      }
      // What is stored takes the place of the pieces, in the same drawing.
      draft.clear();
      giveOut();
    },
    delta: (delta) => draft.add(delta),
    begins: () => draft.clear(),
    gone,
  });
  return () => {
    leave();
    window.clearTimeout(timer);
  };
}
