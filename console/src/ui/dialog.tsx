/** A window over the page: it takes the focus, gives it back, and Escape leaves it. */
import type { ComponentChildren, VNode } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../lib/words";

interface Props {
  title: string;
  children: ComponentChildren;
  onClose: () => void;
  /** Given, the content is a form that this is done with. */
  onSubmit?: () => void;
}

export function Dialog({ title, children, onClose, onSubmit }: Props): VNode {
  const element = useRef<HTMLDialogElement>(null);
  const before = useRef<Element | null>(null);
  const heading = useId();
  useEffect(() => {
    before.current = document.activeElement;
    element.current?.showModal();
    return () => {
      if (before.current instanceof HTMLElement && before.current.isConnected) before.current.focus();
    };
  }, []);
  const submit = (event: Event): void => {
    event.preventDefault();
    onSubmit?.();
  };
  const content = (
    <>
      <header>
        <h2 id={heading}>{title}</h2>
        <button type="button" class="quiet" aria-label={t("common.close")} onClick={onClose}>
          ✕
        </button>
      </header>
      {children}
    </>
  );
  return (
    <dialog ref={element} aria-labelledby={heading} onCancel={(event) => (event.preventDefault(), onClose())}>
      {onSubmit ? <form onSubmit={submit}>{content}</form> : content}
    </dialog>
  );
}
