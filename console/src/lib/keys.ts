/** Keyboard: shortcuts of the page that is shown, and the list of them. */
import { useEffect, useRef } from "preact/hooks";
import type { Word } from "./words";

export interface Shortcut {
  key: string;
  word: Word;
  run: (event: KeyboardEvent) => void;
}

const shown: Shortcut[][] = [];

/** The shortcuts that hold now, those of the innermost part first. */
export const shortcuts = (): Shortcut[] => shown.toReversed().flat();

const WRITES = "input:not([type=checkbox]), textarea, select, [contenteditable]";

function pressed(event: KeyboardEvent): void {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const target = event.target as Element | null;
  if (target?.closest?.(WRITES) || document.querySelector("dialog[open]")) return;
  const found = shortcuts().find((each) => each.key === event.key);
  if (!found) return;
  event.preventDefault();
  found.run(event);
}

let isListening = false;

/** These hold as long as the caller is shown. */
export function useShortcuts(list: Shortcut[]): void {
  const own = useRef<Shortcut[]>([]);
  own.current.splice(0, own.current.length, ...list);
  useEffect(() => {
    if (!isListening) document.addEventListener("keydown", pressed);
    isListening = true;
    shown.push(own.current);
    return () => {
      shown.splice(shown.indexOf(own.current), 1);
    };
  }, []);
}
