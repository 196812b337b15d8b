/**
 * One session while it happens: its events, and pieces of the answer that is being made.
 *
 * Read with `fetch`, because an `EventSource` can neither begin after an event nor tell that the
 * session is gone. A connection that is lost is made again after the last event that came.
 */
import { address, get, part } from "../../api/http";
import type { SessionEvent } from "../../api/types";

export interface Delta {
  kind: "text" | "reasoning" | "arguments" | "published";
  text: string;
  index: number;
}

export interface Listener {
  event: (event: SessionEvent) => void;
  delta: (delta: Delta) => void;
  /** A connection begins: pieces of an answer that came before are not continued. */
  begins: () => void;
  /** The session is no more. */
  gone: () => void;
}

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 10_000;
/** The server says every 15 seconds that it is there. */
const SILENCE_MS = 40_000;

async function frames(body: ReadableStream<Uint8Array>, heard: () => void, take: (frame: string) => void): Promise<void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    heard();
    const found = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = found.pop()!;
    found.forEach(take);
  }
}

function parsed(frame: string): { type: string; data: string } {
  const result = { type: "", data: "" };
  for (const line of frame.split("\n")) {
    if (line.startsWith("event: ")) result.type = line.slice(7);
    if (line.startsWith("data: ")) result.data += line.slice(6);
  }
  return result;
}

/** Follow a session after the event numbered `after`; the answer ends it. */
export function follow(id: string, after: number, listener: Listener): () => void {
  let last = after;
  let waitMs = FIRST_WAIT_MS;
  let timer = 0;
  let silence = 0;
  let connection: AbortController | null = null;
  let isOver = false;

  const take = (frame: string): void => {
    const { type, data } = parsed(frame);
    if (!data || isOver) return;
    if (type === "delta") return listener.delta(JSON.parse(data) as Delta);
    const event = JSON.parse(data) as SessionEvent;
    if (event.seq <= last) return;
    last = event.seq;
    listener.event(event);
  };
  const read = async (stop: AbortController): Promise<number> => {
    const heard = (): void => {
      window.clearTimeout(silence);
      silence = window.setTimeout(() => stop.abort(), SILENCE_MS);
    };
    heard();
    const response = await fetch(address(`/sessions/${part(id)}/stream`), {
      headers: { Accept: "text/event-stream", "Last-Event-ID": String(last) },
      signal: stop.signal,
      cache: "no-store",
    });
    if (!response.ok || !response.body) return response.status;
    listener.begins();
    waitMs = FIRST_WAIT_MS;
    await frames(response.body, heard, take);
    return response.status;
  };
  const connect = async (): Promise<void> => {
    const stop = (connection = new AbortController());
    const status = await read(stop).catch(() => 0);
    window.clearTimeout(silence);
    if (connection === stop) connection = null;
    if (isOver) return;
    if (status === 404) return listener.gone();
    // Whoever is not known any more is shown the login by any other request.
    if (status === 401) void get("/me").catch(() => undefined);
    if (connection || document.hidden) return;
    timer = window.setTimeout(() => void connect(), waitMs * (0.75 + Math.random() / 2));
    waitMs = Math.min(waitMs * 2, LONGEST_WAIT_MS);
  };
  // A page that nobody sees keeps none of the few connections that a browser has for one server.
  const seen = (): void => {
    window.clearTimeout(timer);
    if (document.hidden) connection?.abort();
    else if (!connection) void connect();
  };
  document.addEventListener("visibilitychange", seen);
  window.addEventListener("online", seen);
  seen();
  return () => {
    isOver = true;
    window.clearTimeout(timer);
    window.clearTimeout(silence);
    document.removeEventListener("visibilitychange", seen);
    window.removeEventListener("online", seen);
    connection?.abort();
  };
}
