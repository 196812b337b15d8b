/** A field for a text of several lines. */
import type { VNode } from "preact";

/** Enter sends, unless a word is being composed. */
function isSend(event: KeyboardEvent): boolean {
  // 229 is what some browsers say of the Enter that ends a composition.
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}

interface Props {
  label: string;
  value: string;
  change: (text: string) => void;
  /** Given, Enter calls it, and Shift+Enter begins a line. */
  send?: () => void;
  field?: { current: HTMLTextAreaElement | null };
  isFixed?: boolean;
  help?: string;
}

export function TextField({ label, value, change, send, field, isFixed, help }: Props): VNode {
  return (
    <label>
      {label}
      <textarea
        ref={field ?? null}
        dir="auto"
        required
        value={value}
        readOnly={isFixed}
        aria-describedby={help}
        onInput={(event) => change(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (!send || !isSend(event)) return;
          event.preventDefault();
          send();
        }}
      />
    </label>
  );
}
