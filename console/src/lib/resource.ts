/** What is read from the server, and read again when it changed. */
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { ApiError, get, type Page } from "../api/http";
import { live, type LiveMessage, type Wanted } from "../api/live";

type Query = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export interface Resource<T> {
  data: T | null;
  error: ApiError | null;
  /** Read it again; what is shown stays until then. */
  reload: () => void;
}

export const asError = (error: unknown): ApiError =>
  error instanceof ApiError ? error : new ApiError(0, "console.error", String(error));

const MAY_PASS = new Set([0, 429, 503, 504]);
const RETRY_S = 3;

/** How long to wait before what failed so is tried again; `null` if that would be of no use. */
export const retryMs = (error: ApiError): number | null =>
  MAY_PASS.has(error.status) ? (error.retryAfterS ?? RETRY_S) * 1000 : null;

/**
 * Read `path`; `null` reads nothing. A reload that comes while one is under way follows it, and a
 * read that failed for a while is repeated.
 */
export function useResource<T>(path: string | null, query: Query = {}): Resource<T> {
  const key = path === null ? null : JSON.stringify([path, query]);
  const [state, setState] = useState<{ key: string | null; data: T | null; error: ApiError | null }>({
    key,
    data: null,
    error: null,
  });
  const again = useRef<() => void>(() => undefined);
  useEffect(() => {
    if (path === null) return undefined;
    const stop = new AbortController();
    let busy = false;
    let wanted = false;
    let timer = 0;
    const read = async (): Promise<void> => {
      if (busy) {
        wanted = true;
        return;
      }
      busy = true;
      window.clearTimeout(timer);
      try {
        const data = await get<T>(path, query, stop.signal);
        if (!stop.signal.aborted) setState({ key, data, error: null });
      } catch (error) {
        if (stop.signal.aborted) return;
        const failure = asError(error);
        const ms = retryMs(failure);
        setState((old) => ({ key, data: old.key === key ? old.data : null, error: failure }));
        if (ms !== null) timer = window.setTimeout(() => void read(), ms);
      }
      busy = false;
      if (wanted && !stop.signal.aborted) {
        wanted = false;
        void read();
      }
    };
    again.current = () => void read();
    void read();
    return () => {
      stop.abort();
      window.clearTimeout(timer);
    };
  }, [key]);
  const reload = useCallback(() => again.current(), []);
  return state.key === key ? { ...state, reload } : { data: null, error: null, reload };
}

export interface Pages<T> extends Resource<T[]> {
  /** There is more: read it. */
  more: (() => void) | null;
  isLoadingMore: boolean;
}

const PAGE = 50;
const LONGEST = 1000;

/** What lies beyond the longest page. */
interface Rest<T> {
  key: string;
  /** The first page that it follows. */
  page: Page<T>;
  items: T[];
  next: string | null;
  /** How many there should be, if there are so many. */
  wanted: number;
  busy: boolean;
}

/** The list without what is in it twice: something moves while pages are read one after the other. */
function once<T>(items: T[]): T[] {
  const seen = new Set<unknown>();
  return items.filter((item) => {
    const own = item as { id?: string; task_id?: string; session_id?: string };
    const id = own.id ?? (own.task_id ? item : (own.session_id ?? item));
    return !seen.has(id) && seen.add(id);
  });
}

/**
 * A list that grows when more is asked for. What was read is read again as a whole when it changed:
 * up to the longest page that the server gives at once, and what lies beyond after it.
 */
export function usePages<T>(path: string, query: Query = {}, size = PAGE): Pages<T> {
  const key = JSON.stringify([path, query]);
  const [length, setLength] = useState({ key, limit: size });
  const limit = length.key === key ? length.limit : size;
  const first = useResource<Page<T>>(path, { ...query, limit });
  const shown = useRef<{ key: string; page: Page<T> | null }>({ key, page: null });
  if (shown.current.key !== key) shown.current = { key, page: null };
  if (first.data) shown.current.page = first.data;
  const page = shown.current.page;
  const [rest, setRest] = useState<Rest<T> | null>(null);
  const beyond = rest?.key === key ? rest : null;
  const next = beyond ? beyond.next : (page?.next_cursor ?? null);
  const isLoadingMore = beyond?.busy ?? (page !== null && first.data === null && !first.error);
  const turn = useRef(0);
  const extend = async (follows: Page<T>, wanted: number, busy: boolean): Promise<void> => {
    const own = ++turn.current;
    const goesOn = beyond?.page === follows ? beyond : null;
    const old = beyond ?? { key, page: follows, items: [], next };
    const items = goesOn ? [...goesOn.items] : [];
    let cursor = goesOn ? goesOn.next : follows.next_cursor;
    setRest({ ...old, wanted, busy });
    try {
      while (cursor && items.length < wanted && own === turn.current) {
        const found = await get<Page<T>>(path, { ...query, limit: LONGEST, cursor });
        items.push(...found.items);
        cursor = found.next_cursor;
      }
      if (own === turn.current) setRest({ key, page: follows, items, next: cursor, wanted, busy: false });
    } catch {
      if (own === turn.current) setRest({ ...old, wanted, busy: false });
    }
  };
  useEffect(() => {
    if (page && beyond && beyond.page !== page) void extend(page, beyond.wanted, beyond.busy);
  }, [page]);
  const more = (): void => {
    if (!beyond && limit < LONGEST) setLength({ key, limit: Math.min(limit * 2 + PAGE, LONGEST) });
    else if (page) void extend(page, (beyond?.items.length ?? 0) + 1, true);
  };
  return {
    data: page && (beyond ? once([...page.items, ...beyond.items]) : page.items),
    error: first.error,
    reload: first.reload,
    more: next && !isLoadingMore ? more : null,
    isLoadingMore,
  };
}

/** Follow what happens while the page is shown; `reset` is told when something may have been missed. */
export function useLive(wanted: Wanted, deliver: (batch: LiveMessage[]) => void, reset: () => void): void {
  const latest = useRef({ deliver, reset });
  latest.current = { deliver, reset };
  useEffect(
    () =>
      live.subscribe(
        wanted,
        (batch) => latest.current.deliver(batch),
        () => latest.current.reset(),
      ),
    [JSON.stringify(wanted)],
  );
}

/** Call `then` at most once in `ms`, and once after the last call. */
export function useThrottled(then: () => void, ms: number): () => void {
  const latest = useRef(then);
  latest.current = then;
  const timer = useRef(0);
  useEffect(() => () => window.clearTimeout(timer.current), []);
  return useCallback(() => {
    if (timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      latest.current();
    }, ms);
  }, [ms]);
}
