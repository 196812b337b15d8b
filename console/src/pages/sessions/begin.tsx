/** A new session: say something to the team, and watch what becomes of it. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { post, type ApiError } from "../../api/http";
import type { Run } from "../../api/types";
import { asError } from "../../lib/resource";
import { go } from "../../lib/router";
import { t } from "../../lib/words";
import { ErrorBox } from "../../ui/basics";
import { Dialog } from "../../ui/dialog";
import { TextField } from "../../ui/text_field";
import { useOnce } from "../session/compose";
import { nameOf } from "../session/lanes";

const AUTO = "auto";

export function Begin({ agents, onClose }: { agents: string[]; onClose: () => void }): VNode {
  const [text, setText] = useState("");
  const [title, setTitle] = useState("");
  const [agent, setAgent] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const keyFor = useOnce();
  const start = async (): Promise<void> => {
    if (isBusy || !text.trim()) return;
    const body = { input: text, background: true, agent: agent || null, title: title.trim() || null };
    setBusy(true);
    try {
      const run = await post<Run>("/runs", body, { "Idempotency-Key": keyFor(JSON.stringify(body)) });
      onClose();
      go(["sessions", run.session_id]);
    } catch (problem) {
      setError(asError(problem));
      setBusy(false);
    }
  };
  return (
    <Dialog title={t("sessions.new")} onClose={onClose} onSubmit={() => void start()}>
      <div class="begin">
        <TextField label={t("sessions.message")} value={text} change={setText} />
        <label>
          {t("sessions.to")}
          <select value={agent} onChange={(event) => setAgent(event.currentTarget.value)}>
            <option value="">{t("sessions.to_first")}</option>
            <option value={AUTO}>{t("sessions.to_auto")}</option>
            {agents.map((name) => (
              <option key={name} value={name}>
                {nameOf(name)}
              </option>
            ))}
          </select>
        </label>
        <label>
          {t("sessions.title")}
          <input dir="auto" maxLength={200} value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
        </label>
        {error && <ErrorBox error={error} />}
        <p class="row">
          <button type="submit" class="primary" disabled={isBusy || !text.trim()}>
            {t("sessions.start")}
          </button>
          <button type="button" onClick={onClose}>
            {t("common.cancel")}
          </button>
        </p>
      </div>
    </Dialog>
  );
}
