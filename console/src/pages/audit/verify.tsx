/** Whether what is stored is what was written: every hash is computed again. */
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { ApiError, post } from "../../api/http";
import type { BrokenRecord, AuditVerify, AuditVerification } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { link } from "../../lib/router";
import { exact, useNow } from "../../lib/time";
import { named, t } from "../../lib/words";
import { ErrorBox, Facts } from "../../ui/basics";

type State =
  | { is: "idle" }
  | { is: "busy"; since: number }
  | { is: "failed"; error: ApiError; again: () => void }
  | { is: "done"; found: AuditVerification };

function Busy({ since }: { since: number }): VNode {
  const seconds = Math.max(0, Math.round(useNow() - since));
  return (
    <div class="notice">
      <p role="status">{t("audit.verifying")}</p>
      <p class="muted">
        <progress aria-label={t("audit.verifying")} /> {t("audit.seconds", { n: seconds })}
      </p>
    </div>
  );
}

function Broken({ at }: { at: BrokenRecord }): VNode {
  return (
    <li>
      <strong>{named("audit", `fault_${at.fault}`)}</strong>{" "}
      <a href={link(["audit"], { record: at.record_id })}><Plain text={at.record_id} /></a>{" "}
      {at.session_id && (
        <>
          (<a href={link(["audit"], { session: at.session_id })}>{t("common.session")} <Plain text={at.session_id} /></a>)
        </>
      )}{" "}
      {at.timestamp > 0 && <span class="muted">{exact(at.timestamp)}</span>}
      <br />
      <Plain text={at.message} />
    </li>
  );
}

const SHOWN = 100;

function Found({ found }: { found: AuditVerification }): VNode {
  return (
    <div class={`notice ${found.ok ? "good" : "bad"}`}>
      <p role={found.ok ? "status" : "alert"}>
        <strong>{found.ok ? `✓ ${t("audit.unbroken")}` : `✕ ${t("audit.broken", { n: found.broken })}`}</strong>
      </p>
      <Facts
        rows={[
          [t("audit.sessions"), String(found.sessions)],
          [t("audit.events"), String(found.events)],
          [t("audit.compared"), found.compared > 0 && String(found.compared)],
          [t("audit.unhashed"), found.unhashed > 0 && String(found.unhashed)],
          [t("audit.not_chained"), found.not_chained > 0 && String(found.not_chained)],
        ]}
      />
      {!found.ok && (
        <ol>{found.links.slice(0, SHOWN).map((each) => <Broken key={each.record_id + each.fault} at={each} />)}</ol>
      )}
      {found.links.length > SHOWN && <p>{t("audit.and_more", { n: found.links.length - SHOWN })}</p>}
    </div>
  );
}

export function Verify({ session }: { session: string }): VNode {
  const [state, setState] = useState<State>({ is: "idle" });
  const file = useRef<HTMLInputElement>(null);
  const verify = async (body: AuditVerify): Promise<void> => {
    setState({ is: "busy", since: Date.now() / 1000 });
    try {
      setState({ is: "done", found: await post<AuditVerification>("/audit/verify", body) });
    } catch (problem) {
      const error = problem instanceof ApiError ? problem : new ApiError(0, "", String(problem));
      setState({ is: "failed", error, again: () => void verify(body) });
    }
  };
  const compare = async (input: HTMLInputElement): Promise<void> => {
    const against = await input.files?.[0]?.text();
    input.value = "";
    if (against !== undefined) await verify({ against });
  };
  const isBusy = state.is === "busy";
  return (
    <section aria-label={t("audit.verification")}>
      <div class="row">
        <button type="button" class="primary" disabled={isBusy} onClick={() => void verify({})}>{t("audit.verify")}</button>
        {session && (
          <button type="button" disabled={isBusy} onClick={() => void verify({ session_id: session })}>{t("audit.verify_session")}</button>
        )}
        <button type="button" disabled={isBusy} onClick={() => file.current?.click()}>{t("audit.verify_against")}</button>
        <input
          type="file"
          hidden
          ref={file}
          accept=".jsonl,.json,.txt"
          aria-label={t("audit.export_file")}
          onChange={(event) => void compare(event.currentTarget)}
        />
      </div>
      {state.is === "busy" && <Busy since={state.since} />}
      {state.is === "failed" && <ErrorBox error={state.error} retry={state.again} />}
      {state.is === "done" && <Found found={state.found} />}
    </section>
  );
}
