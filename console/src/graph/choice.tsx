/** A drawing, the same as a list, and what is chosen of it, told beside. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Plain } from "../lib/hidden";
import { t, type Word } from "../lib/words";

/** A part of what is told, if there is anything to tell. */
export function Part({ word, children }: { word: Word; children: ComponentChildren }): VNode | null {
  if (!children) return null;
  return (
    <>
      <h4>{t(word)}</h4>
      {children}
    </>
  );
}

interface LineProps {
  isChosen: boolean;
  choose: () => void;
  who: ComponentChildren;
  badge: ComponentChildren;
  why: string;
  when?: ComponentChildren;
}

/** One of a list. */
export function Line({ isChosen, choose, who, badge, why, when }: LineProps): VNode {
  return (
    <li>
      <button type="button" class="relay" aria-pressed={isChosen} onClick={choose}>
        <span class="who-to-whom">{who}</span>
        {badge}
        {why && (
          <span class="why">
            <Plain text={why} />
          </span>
        )}
        {when && <span class="muted when">{when}</span>}
      </button>
    </li>
  );
}

interface Props {
  /** What is chosen; `null`: nothing is, and there are no details. */
  title: string | null;
  details: ComponentChildren;
  /** Changes when something else is chosen. */
  chosen: string;
  clear: () => void;
  drawing: ComponentChildren;
  word: Word;
  lines: VNode[];
}

const TITLE = "choice-title";

/** Whoever chooses something here reads about it; whoever leaves it is where they were. */
export function Choosing({ title, details, chosen, clear, drawing, word, lines }: Props): VNode {
  const place = useRef<HTMLDivElement>(null);
  const before = useRef<HTMLElement | null>(null);
  useEffect(() => {
    const now = document.activeElement as HTMLElement;
    if (!place.current!.contains(now)) return;
    if (!now.closest(".panel")) before.current = now;
    document.getElementById(TITLE)?.focus();
  }, [chosen]);
  const close = (): void => {
    clear();
    const back = before.current?.isConnected ? before.current : place.current!.querySelector<HTMLElement>(".drawing");
    back?.focus();
  };
  return (
    <div class={title === null ? "graph" : "graph with-panel"} ref={place} onKeyDown={(event) => event.key === "Escape" && title !== null && close()}>
      {drawing}
      {title !== null && (
        <section class="card panel" aria-labelledby={TITLE}>
          <header class="row spread">
            <h3 id={TITLE} tabIndex={-1}>
              <Plain text={title} />
            </h3>
            <button type="button" class="quiet" aria-label={t("common.close")} onClick={close}>
              ✕
            </button>
          </header>
          {details}
        </section>
      )}
      {lines.length > 0 && (
        <section class="graph-list" aria-label={t(word)}>
          <h3>{t(word)}</h3>
          <ol class="relays">{lines}</ol>
        </section>
      )}
    </div>
  );
}
