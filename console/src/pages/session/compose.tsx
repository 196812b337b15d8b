/** Say something to the team. What was written is kept until it is sent. */
import type { VNode } from "preact";
import { useId, useRef, useState } from "preact/hooks";
import { post, type ApiError } from "../../api/http";
import { asError } from "../../lib/resource";
import { t } from "../../lib/words";
import { ErrorBox } from "../../ui/basics";
import { TextField } from "../../ui/text_field";

/** What was not sent yet, by session: another tab of the page may be looked at meanwhile. */
const unsent = new Map<string, string>();

/** A key that nobody else has; `randomUUID` is not there on pages without TLS. */
const newKey = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

/** The same words, sent again, are said once. */
export function useOnce(): (words: string) => string {
  const last = useRef({ words: "", key: "" });
  return (words) => {
    if (last.current.words !== words) last.current = { words, key: newKey() };
    return last.current.key;
  };
}

export function Compose({ id, isWaiting }: { id: string; isWaiting: boolean }): VNode {
  const [text, setText] = useState(() => unsent.get(id) ?? "");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const keyFor = useOnce();
  const field = useRef<HTMLTextAreaElement>(null);
  const help = useId();
  const change = (value: string): void => {
    setText(value);
    unsent.set(id, value);
  };
  const send = async (): Promise<void> => {
    // What stands in the field may be newer than what was drawn.
    const input = field.current!.value;
    if (!input.trim() || isBusy) return;
    setBusy(true);
    setError(null);
    try {
      await post("/runs", { input, session_id: id, background: true }, { "Idempotency-Key": keyFor(input) });
      keyFor("");
      change("");
    } catch (problem) {
      setError(asError(problem));
    }
    setBusy(false);
    field.current?.focus();
  };
  return (
    <form class="compose" onSubmit={(event) => (event.preventDefault(), void send())}>
      <TextField label={t("session.message")} value={text} change={change} send={() => void send()} field={field} isFixed={isBusy} help={help} />
      {error && <ErrorBox error={error} />}
      <div class="row spread">
        <span id={help} class="muted">
          {t("session.message_help")} {isWaiting && t("session.breaks_off")}
        </span>
        <button type="submit" class="primary" disabled={!text.trim() || isBusy}>
          {t("session.send")}
        </button>
      </div>
    </form>
  );
}
