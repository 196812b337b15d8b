/** Short messages about what was just done; read out by screen readers. */
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/http";
import { Plain } from "../lib/hidden";
import { t } from "../lib/words";
import { errorText } from "./basics";

interface Toast {
  id: number;
  text: string;
  isBad: boolean;
}

const SHOWN_MS = 6000;
let toasts: Toast[] = [];
let count = 0;
const watchers = new Set<(list: Toast[]) => void>();

function change(list: Toast[]): void {
  toasts = list;
  for (const each of watchers) each(list);
}

const remove = (id: number): void => change(toasts.filter((each) => each.id !== id));

export function say(text: string, isBad = false): void {
  const id = ++count;
  change([...toasts.slice(-3), { id, text, isBad }]);
  if (!isBad) window.setTimeout(() => remove(id), SHOWN_MS);
}

/** Do something that may fail, and tell if it does; whether it went well. */
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
  } catch (error) {
    say(error instanceof ApiError ? errorText(error) : String(error), true);
    return false;
  }
  if (done) say(done);
  return true;
}

export function Toasts(): VNode {
  const [list, setList] = useState(toasts);
  useEffect(() => {
    watchers.add(setList);
    return () => void watchers.delete(setList);
  }, []);
  return (
    <div class="toasts" aria-live="polite">
      {list.map((toast) => (
        <div key={toast.id} class={toast.isBad ? "toast bad" : "toast"} role={toast.isBad ? "alert" : "status"}>
          <Plain text={toast.text} />
          <button type="button" class="quiet" aria-label={t("common.close")} onClick={() => remove(toast.id)}>
            ✕
          </button>
        </div>
      ))}
    </div>
  );
}
