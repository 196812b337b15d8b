/** Say something to the team. What was written is kept until it is sent. */
import type { VNode } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { ApiError, call } from "../../api/http";
import type { RunModel } from "../../api/types";
import { asError } from "../../lib/resource";
import { t } from "../../lib/words";
import { ErrorBox } from "../../ui/basics";

/** What was not sent yet, by session: another tab of the page may be looked at meanwhile. */
const unsent = new Map<string, string>();

/** A key that nobody else has; `randomUUID` is not there on pages without TLS. */
const newKey = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** Whether to wait if somebody works on the session. */
type Mode = "now" | "wait";
const BUSY = "session.busy";
const AGAIN_MS = 1000;

/** The same words, sent again, are said once. */
export function useOnce(): (words: string) => string {
  const last = useRef({ words: "", key: "" });
  return (words) => {
    if (last.current.words !== words) last.current = { words, key: newKey() };
    return last.current.key;
  };
}

/**
 * Send; with `wait` again and again until the session is free. It is not the server that waits:
 * what was given up here must not be said later.
 */
async function deliver(id: string, input: string, mode: Mode, key: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      const body = { input, session_id: id, background: true };
      await call<RunModel>("POST", "/runs", { body, headers: { "Idempotency-Key": key }, signal });
      return;
    } catch (error) {
      if (mode === "now" || !(error instanceof ApiError) || error.code !== BUSY) throw error;
      await new Promise((resolve) => window.setTimeout(resolve, AGAIN_MS));
      signal.throwIfAborted();
    }
  }
}

/** What a key means in a text field: Enter sends, unless a word is being composed. */
export function isSend(event: KeyboardEvent): boolean {
  // 229 is what some browsers say of the Enter that ends a composition.
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}

export function Compose({ id, isWaiting }: { id: string; isWaiting: boolean }): VNode {
  const [text, setText] = useState(() => unsent.get(id) ?? "");
  const [mode, setMode] = useState<Mode | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const keyFor = useOnce();
  const stop = useRef<AbortController | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const help = useId();
  useEffect(() => () => stop.current?.abort(), []);
  const change = (value: string): void => {
    setText(value);
    unsent.set(id, value);
  };
  const send = async (wanted: Mode): Promise<void> => {
    // What stands in the field may be newer than what was drawn.
    const words = field.current?.value ?? text;
    if (!words.trim() || mode) return;
    const own = (stop.current = new AbortController());
    setMode(wanted);
    setError(null);
    try {
      await deliver(id, words, wanted, keyFor(words), own.signal);
      keyFor("");
      change("");
    } catch (problem) {
      if (!own.signal.aborted) setError(asError(problem));
    }
    setMode(null);
    field.current?.focus();
  };
  const pressed = (event: KeyboardEvent): void => {
    if (!isSend(event)) return;
    event.preventDefault();
    void send("now");
  };
  return (
    <form class="compose" onSubmit={(event) => (event.preventDefault(), void send("now"))}>
      <label>
        <span class="hidden">{t("session.message")}</span>
        <textarea
          ref={field}
          dir="auto"
          rows={2}
          placeholder={t("session.message")}
          aria-describedby={help}
          value={text}
          readOnly={mode !== null}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={pressed}
        />
      </label>
      {error && error.code !== BUSY && <ErrorBox error={error} />}
      <div class="row spread">
        <span id={help} class="muted">
          {t("session.message_help")} {isWaiting && t("session.breaks_off")}
        </span>
        <span class="row" aria-live="polite">
          {error?.code === BUSY && !mode && (
            <>
              {t("session.is_busy")}
              <button type="button" onClick={() => void send("wait")}>
                {t("session.send_later")}
              </button>
            </>
          )}
          {mode === "wait" && (
            <>
              {t("session.waits_to_send")}
              <button type="button" onClick={() => stop.current?.abort()}>
                {t("common.cancel")}
              </button>
            </>
          )}
          <button type="submit" class="primary" disabled={!text.trim() || mode !== null}>
            {t(mode === "now" ? "session.sending" : "session.send")}
          </button>
        </span>
      </div>
    </form>
  );
}
