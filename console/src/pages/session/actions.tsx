/** Stop the run, or go on with it. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { part, post } from "../../api/http";
import type { Run, SessionSummary } from "../../api/types";
import { t } from "../../lib/words";
import { useMay } from "../../session";
import { attempt } from "../../ui/toasts";

const UNDER_WAY = new Set(["working", "waiting_agent", "waiting_person"]);
const UNFINISHED = new Set(["stopped", "failed", "out_of_budget"]);

interface Props {
  session: SessionSummary;
  run: Run | null;
  reload: () => void;
}

export function RunActions({ session, run, reload }: Props): VNode | null {
  const mayRun = useMay("run");
  const [isBusy, setBusy] = useState(false);
  if (!mayRun || !session.run_id) return null;
  const act = async (path: string, body: unknown): Promise<void> => {
    setBusy(true);
    await attempt(() => post(path, body));
    setBusy(false);
    reload();
  };
  const cancel = `/runs/${part(session.run_id)}/cancel`;
  const resume = `/sessions/${part(session.session_id)}/resume`;
  if (UNDER_WAY.has(session.state)) {
    return (
      <button type="button" class="danger" disabled={isBusy} onClick={() => void act(cancel, {})}>
        {t("session.stop")}
      </button>
    );
  }
  if (!run || run.run_id !== session.run_id || !UNFINISHED.has(run.status)) return null;
  return (
    <button type="button" disabled={isBusy} onClick={() => void act(resume, { background: true })}>
      {t("session.resume")}
    </button>
  );
}
