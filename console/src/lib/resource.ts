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

/** Read `path`; `null` reads nothing. A reload that comes while one is under way follows it. */
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
    const read = async (): Promise<void> => {
      if (busy) {
        wanted = true;
        return;
      }
      busy = true;
      try {
        const data = await get<T>(path, query, stop.signal);
        if (!stop.signal.aborted) setState({ key, data, error: null });
      } catch (error) {
        if (!stop.signal.aborted) {
          setState((old) => ({ key, data: old.key === key ? old.data : null, error: asError(error) }));
        }
      }
      busy = false;
      if (wanted && !stop.signal.aborted) {
        wanted = false;
        void read();
      }
    };
    again.current = () => void read();
    void read();
    return () => stop.abort();
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

interface Rest<T> {
  key: string;
  items: T[];
  next: string | null;
  busy: boolean;
}

/**
 * A list that grows when more is asked for. What was read is read again as a whole when it changed,
 * up to the longest page that the server gives; what lies beyond is appended as it was.
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
  const more = async (): Promise<void> => {
    if (!beyond && limit < LONGEST) {
      setLength({ key, limit: Math.min(limit * 2 + PAGE, LONGEST) });
      return;
    }
    const items = beyond?.items ?? [];
    setRest({ key, items, next, busy: true });
    try {
      const found = await get<Page<T>>(path, { ...query, limit: LONGEST, cursor: next });
      setRest({ key, items: [...items, ...found.items], next: found.next_cursor, busy: false });
    } catch {
      setRest({ key, items, next, busy: false });
    }
  };
  return {
    data: page && [...page.items, ...(beyond?.items ?? [])],
    error: first.error,
    reload: first.reload,
    more: next && !isLoadingMore ? () => void more() : null,
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
