/** The head of the page, the ways to its parts, and the part that is shown. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { live } from "./api/live";
import { shortcuts, useShortcuts } from "./lib/keys";
import { link, useRoute, type Route } from "./lib/router";
import { t, type Language, type Word } from "./lib/words";
import { AgentsPage } from "./pages/agents/page";
import { AuditPage } from "./pages/audit/page";
import { InboxPage } from "./pages/inbox/page";
import { PlansPage } from "./pages/plans/page";
import { SessionPage } from "./pages/session/page";
import { SessionsPage } from "./pages/sessions/page";
import { useMe } from "./session";
import { LookAndLanguage } from "./settings";
import { Empty } from "./ui/basics";
import { Dialog } from "./ui/dialog";
import { useWaiting } from "./waiting";

const PARTS: { name: string; word: Word }[] = [
  { name: "inbox", word: "common.inbox" },
  { name: "sessions", word: "common.sessions" },
  { name: "agents", word: "common.agents" },
  { name: "plans", word: "common.plans" },
  { name: "audit", word: "common.audit" },
];

function Shown({ route }: { route: Route }): VNode {
  const [part = "inbox", id] = route.path;
  if (part === "inbox") return <InboxPage route={route} />;
  if (part === "sessions" && id) return <SessionPage key={id} id={id} route={route} />;
  if (part === "sessions") return <SessionsPage route={route} />;
  if (part === "agents") return <AgentsPage route={route} />;
  if (part === "plans") return <PlansPage route={route} />;
  if (part === "audit") return <AuditPage route={route} />;
  return <Empty>{t("common.no_such_page")}</Empty>;
}

function Connection(): VNode {
  const [status, setStatus] = useState(live.status);
  useEffect(() => live.watch(setStatus), []);
  const word: Word = status === "live" ? "common.live" : status === "lost" ? "common.lost" : "common.connecting";
  return (
    <span class={`connection ${status}`} role="status">
      {t(word)}
    </span>
  );
}

function Help({ onClose }: { onClose: () => void }): VNode {
  return (
    <Dialog title={t("common.keyboard")} onClose={onClose}>
      <dl class="keys">
        {shortcuts().map((each) => (
          <div key={each.key + each.word}>
            <dt>
              <kbd>{each.key}</kbd>
            </dt>
            <dd>{t(each.word)}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** A reader who cannot see is told that another part is shown, and where it begins. */
function useFocusOnChange(route: Route): { current: HTMLElement | null } {
  const main = useRef<HTMLElement>(null);
  const where = route.path.join("/");
  const before = useRef(where);
  useEffect(() => {
    if (before.current !== where && !main.current?.contains(document.activeElement)) main.current?.focus();
    before.current = where;
  }, [where]);
  return main;
}

export function Frame({ speak, leave }: { speak: (language: Language) => void; leave: () => void }): VNode {
  const route = useRoute();
  const me = useMe();
  const waiting = useWaiting();
  const [isHelp, setHelp] = useState(false);
  const main = useFocusOnChange(route);
  const part = PARTS.find((each) => each.name === (route.path[0] ?? "inbox"));
  useShortcuts([{ key: "?", word: "common.show_keyboard", run: () => setHelp(true) }]);
  useEffect(() => {
    const count = waiting ? `(${waiting}) ` : "";
    document.title = `${count}${part ? `${t(part.word)} · ` : ""}Ekiden`;
  });
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        {t("common.skip")}
      </a>
      <header class="top">
        <a class="brand" href={link(["inbox"])}>
          Ekiden
        </a>
        <nav aria-label={t("common.parts")}>
          {PARTS.map((each) => (
            <a key={each.name} href={link([each.name])} aria-current={each === part ? "page" : undefined}>
              {t(each.word)}
              {each.name === "inbox" && waiting > 0 && (
                <span class="count" aria-label={t("common.n_waiting", { n: waiting })}>
                  {waiting > 99 ? "99+" : waiting}
                </span>
              )}
            </a>
          ))}
        </nav>
        <div class="aside">
          <Connection />
          <LookAndLanguage speak={speak} />
          <button type="button" class="quiet" aria-label={t("common.show_keyboard")} onClick={() => setHelp(true)}>
            ?
          </button>
          <span class="who">{me.name}</span>
          {!me.local && (
            <button type="button" onClick={leave}>
              {t("common.log_out")}
            </button>
          )}
        </div>
      </header>
      <main id="main" tabIndex={-1} ref={main}>
        <Shown route={route} />
      </main>
      {isHelp && <Help onClose={() => setHelp(false)} />}
    </>
  );
}
