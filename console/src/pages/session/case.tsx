/** What the session waits for: questions to people, and a conversation that was handed to them. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { part, post } from "../../api/http";
import type { InboxItemModel, RunModel } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { useResource } from "../../lib/resource";
import { link } from "../../lib/router";
import { t } from "../../lib/words";
import { useMay } from "../../session";
import { attempt } from "../../ui/toasts";
import { nameOf } from "./lanes";

const MOST_SHOWN = 5;

function AnswerForm({ id, from, done }: { id: string; from: string; done: () => void }): VNode {
  const [text, setText] = useState("");
  const [isBack, setBack] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const answer = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    const body = { text, back: isBack, wait_s: 0 };
    if (await attempt(() => post<RunModel>(`/sessions/${part(id)}/answer`, body), t("session.answered"))) setText("");
    setBusy(false);
    done();
  };
  return (
    <form onSubmit={(event) => void answer(event)}>
      <label>
        {t("session.answer_as_person")}
        <textarea dir="auto" required value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="row spread">
        <label class="row">
          <input type="checkbox" checked={isBack} onChange={(event) => setBack(event.currentTarget.checked)} />
          <span>
            <Plain text={t("session.give_back", { who: nameOf(from) })} />
          </span>
        </label>
        <button type="submit" class="primary" disabled={isBusy || !text.trim()}>
          {t("session.answer")}
        </button>
      </div>
    </form>
  );
}

function Open({ item: id, session, done }: { item: string; session: string; done: () => void }): VNode | null {
  const mayAnswer = useMay("answer");
  const { data } = useResource<InboxItemModel>(`/inbox/${part(id)}`);
  if (!data || data.status !== "open") return null;
  return (
    <section class="notice wait" aria-label={t("session.question_open")}>
      <p>
        <strong>
          <Plain text={t("session.waits_for", { who: data.assignee ?? nameOf(`person:${data.role}`) })} />
        </strong>{" "}
        <Plain text={data.subject} /> <a href={link(["inbox", id])}>{t("session.in_inbox")}</a>
      </p>
      {data.kind === "handoff" && mayAnswer && <AnswerForm id={session} from={data.from_agent} done={done} />}
    </section>
  );
}

export function Waiting({ run, done }: { run: RunModel; done: () => void }): VNode {
  return (
    <>
      {run.questions.slice(0, MOST_SHOWN).map((item) => (
        <Open key={item} item={item} session={run.session_id} done={done} />
      ))}
    </>
  );
}
