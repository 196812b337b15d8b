/** What the session waits for: questions to people, with a way to each. */
import type { VNode } from "preact";
import { part } from "../../api/http";
import type { InboxItem } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { useResource } from "../../lib/resource";
import { link } from "../../lib/router";
import { t } from "../../lib/words";
import { nameOf } from "./lanes";

const MOST_SHOWN = 5;

function Open({ id }: { id: string }): VNode | null {
  const { data } = useResource<InboxItem>(`/inbox/${part(id)}`);
  if (data?.status !== "open") return null;
  return (
    <section class="notice wait" aria-label={t("common.waiting_person")}>
      <p>
        <strong>
          <Plain text={t("session.waits_for", { who: data.assignee ?? nameOf(`person:${data.role}`) })} />
        </strong>{" "}
        <Plain text={data.subject} /> <a href={link(["inbox", id])}>{t("session.in_inbox")}</a>
      </p>
    </section>
  );
}

export function Waiting({ questions }: { questions: string[] }): VNode {
  return (
    <>
      {questions.slice(0, MOST_SHOWN).map((id) => (
        <Open key={id} id={id} />
      ))}
    </>
  );
}
