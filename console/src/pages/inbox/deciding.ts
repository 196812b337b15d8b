/** From the wish to decide to the decision: at once, or in a window that asks for more. */
import { useState } from "preact/hooks";
import { t } from "../../lib/words";
import { say } from "../../ui/toasts";
import type { Acting } from "./acting";
import { forEach } from "./decide";
import type { Extra } from "./detail";
import { FIELDS, NO_DRAFT } from "./fields";
import { isMisleading, noOf, yesOf, type Act, type Item } from "./item";
import type { Questions } from "./questions";

export const NO_EXTRA: Extra = { always: false, wide: false, identical: false };

export interface Deciding {
  acting: Acting | null;
  /** A decision is on its way. */
  isBusy: boolean;
  act: (wanted: Act, choice?: string) => void;
  actOnMany: (wanted: Act, items: Item[]) => void;
  done: (items: Item[]) => void;
  close: () => void;
}

/** `leave` is called with what was decided, the question next to it, and whether it is open all the same. */
export function useDeciding(
  item: Item | null,
  { shown, gone, pages }: Questions,
  extra: Extra,
  leave: (items: Item[], next: string | undefined, isOpen: boolean) => void,
): Deciding {
  const [acting, setActing] = useState<(Acting & { next: string | undefined }) | null>(null);
  const [isBusy, setBusy] = useState(false);
  const neighbour = (of: Item): string | undefined => {
    const index = shown.findIndex((each) => each.id === of.id);
    return (shown[index + 1] ?? shown[index - 1])?.id;
  };
  const begin = (act: Act, items: Item[], more: Extra, choice?: string): void =>
    setActing({ act, items, choice, extra: more, next: neighbour(items[0]!) });
  const approve = async (one: Item): Promise<void> => {
    const next = neighbour(one);
    setBusy(true);
    const result = await forEach([one], FIELDS.approve.work(NO_DRAFT, false, extra));
    setBusy(false);
    pages.reload();
    for (const each of result.problems) say(each.text, true);
    if (result.problems.length) return;
    say(t("inbox.done_approve", { n: result.count }));
    leave([one], next, false);
  };
  const act = (wanted: Act, choice?: string): void => {
    if (!item || item.status !== "open" || gone.has(item.id) || isBusy || acting) return;
    if (wanted === "approve" && yesOf(item)) {
      // What is not what it seems is not approved with one key.
      if (isMisleading(item)) begin("approve", [item], extra);
      else void approve(item);
    } else if (wanted === "approve" || (wanted === "reject" && !noOf(item))) {
      begin("answer", [item], extra, wanted === "approve" ? undefined : item.options.at(-1));
    } else if (wanted !== "edit" || (item.arguments !== null && yesOf(item))) {
      begin(wanted, [item], extra, choice);
    }
  };
  const done = (items: Item[]): void => {
    setActing((now) => (now === acting ? null : now));
    pages.reload();
    leave(items, acting?.next, acting?.act === "assign");
  };
  return {
    acting,
    isBusy,
    act,
    done,
    actOnMany: (wanted, items) => acting || isBusy || begin(wanted, items, NO_EXTRA),
    close: () => setActing(null),
  };
}
