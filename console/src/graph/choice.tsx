/** What is chosen in a drawing, told beside it. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Plain } from "../lib/hidden";
import { t } from "../lib/words";

const TITLE = "choice-title";

export function ChoicePanel({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }): VNode {
  return (
    <section class="card panel" aria-labelledby={TITLE}>
      <header class="row spread">
        <h3 id={TITLE} tabIndex={-1}>
          <Plain text={title} />
        </h3>
        <button type="button" class="quiet" aria-label={t("common.close")} onClick={close}>
          ✕
        </button>
      </header>
      {children}
    </section>
  );
}

interface ChoiceFocus {
  /** The element around the drawing and the panel. */
  place: { current: HTMLDivElement | null };
  /** Somebody chooses something now. */
  byHand: () => void;
  /** Back to where it was chosen. */
  leave: () => void;
}

/** Whoever chose something reads about it; whoever leaves it is where they were. */
export function useChoiceFocus(chosen: string): ChoiceFocus {
  const place = useRef<HTMLDivElement>(null);
  const before = useRef<HTMLElement | SVGElement | null>(null);
  const isByHand = useRef(false);
  useEffect(() => {
    if (isByHand.current) document.getElementById(TITLE)?.focus();
    isByHand.current = false;
  }, [chosen]);
  const byHand = (): void => {
    const now = document.activeElement as HTMLElement | SVGElement | null;
    if (!now?.closest(".panel")) before.current = now;
    isByHand.current = true;
  };
  const leave = (): void => {
    if (before.current?.isConnected) before.current.focus();
    else place.current?.querySelector<HTMLElement>(".drawing")?.focus();
  };
  return { place, byHand, leave };
}
