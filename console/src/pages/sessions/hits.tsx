/** Places where the words that are looked for were said. */
import type { VNode } from "preact";
import type { Page } from "../../api/http";
import type { SessionHit } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { useResource } from "../../lib/resource";
import { t } from "../../lib/words";
import { Pending, PlainLink } from "../../ui/basics";
import { nameOf } from "../session/lanes";

const MOST = 50;

function Hit({ hit }: { hit: SessionHit }): VNode {
  const isTitle = hit.where === "title";
  return (
    <li>
      <PlainLink to={["sessions", hit.session_id]} query={{ seq: hit.seq || null }} text={hit.title || hit.session_id} />{" "}
      <small class="muted">{isTitle ? t("sessions.in_title") : <Plain text={nameOf(hit.agent)} />}</small>
      <p>
        <Plain text={hit.excerpt} />
      </p>
    </li>
  );
}

export function Hits({ text, user }: { text: string; user: string }): VNode | null {
  const found = useResource<Page<SessionHit>>("/sessions/search", { q: text, user, limit: MOST });
  if (!found.data) return <Pending of={found} />;
  const hits = found.data.items;
  if (!hits.length) return null;
  return (
    <section class="hits card" aria-label={t("sessions.hits")}>
      <h2>
        {t("sessions.hits")} <small class="muted">{t("sessions.n_hits", { n: hits.length })}</small>
      </h2>
      <ul>
        {hits.map((hit) => (
          <Hit key={`${hit.session_id}/${hit.seq}/${hit.where}`} hit={hit} />
        ))}
      </ul>
    </section>
  );
}
