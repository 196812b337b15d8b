/** Fields that narrow a list down; what is chosen stands in the address. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { adjust } from "../lib/router";
import { t } from "../lib/words";

interface Props {
  name: string;
  label: string;
  value: string;
  longest?: number;
  input?: { current: HTMLInputElement | null };
}

const TYPING_MS = 250;

/** A text that is heeded as soon as one has stopped typing. */
export function Typed({ name, label, value, longest = 200, input }: Props): VNode {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  const sent = useRef(value);
  const isComposing = useRef(false);
  // Only what came from elsewhere is taken over: one's own text comes back while more is typed.
  useEffect(() => {
    if (value === sent.current || isComposing.current) return;
    sent.current = value;
    window.clearTimeout(timer.current);
    setText(value);
  }, [value]);
  // Whoever leaves the page meanwhile is left alone.
  useEffect(() => () => window.clearTimeout(timer.current), []);
  const type = (now: string): void => {
    setText(now);
    window.clearTimeout(timer.current);
    if (isComposing.current) return;
    timer.current = window.setTimeout(() => {
      sent.current = now.trim();
      adjust({ [name]: sent.current });
    }, TYPING_MS);
  };
  return (
    <label class={name}>
      {label}
      <input
        type="search"
        maxLength={longest}
        ref={input ?? null}
        value={text}
        onInput={(event) => type(event.currentTarget.value)}
        onCompositionStart={() => (isComposing.current = true)}
        onCompositionEnd={(event) => {
          isComposing.current = false;
          type(event.currentTarget.value);
        }}
        onKeyDown={(event) => event.key === "Escape" && event.currentTarget.blur()}
      />
    </label>
  );
}

interface ChoiceProps {
  name: string;
  label: string;
  value: string;
  options: [string, string][];
  /** What it is called when none is chosen. */
  none?: string;
}

/** One of several, or all. */
export function Choice({ name, label, value, options, none = t("common.all") }: ChoiceProps): VNode {
  return (
    <label>
      {label}
      <select value={value} onChange={(event) => adjust({ [name]: event.currentTarget.value })}>
        <option value="">{none}</option>
        {options.map(([each, text]) => <option key={each} value={each}>{text}</option>)}
      </select>
    </label>
  );
}
