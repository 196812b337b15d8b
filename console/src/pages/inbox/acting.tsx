/** The window in which a decision is made that needs more than one key. */
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Plain } from "../../lib/hidden";
import { t, type Word } from "../../lib/words";
import { useMe } from "../../session";
import { Dialog } from "../../ui/dialog";
import { say } from "../../ui/toasts";
import { Chosen } from "./chosen";
import { ending, forEach, type Problem, type Work } from "./decide";
import { Misleading, type Extra } from "./detail";
import { FIELDS, NO_DRAFT, type Draft } from "./fields";
import { isMisleading, type Act, type Item } from "./item";

export interface Acting {
  act: Act;
  items: Item[];
  choice?: string | undefined;
  extra: Extra;
}

interface Props extends Acting {
  /** The question as it is now, if it is one. */
  now: Item | null;
  people: string[];
  onClose: () => void;
  onDone: (done: Item[]) => void;
}

function Problems({ list, isMany }: { list: Problem[]; isMany: boolean }): VNode {
  return (
    <div role="alert">
      {list.length > 0 && (
        <div class="notice bad">
          {isMany && <p>{t("inbox.not_done", { n: list.length })}</p>}
          <ul>
            {list.map(({ item, text }) => (
              <li key={item.id}>
                {isMany && <><strong><Plain text={item.subject} /></strong>: </>}
                <Plain text={text} />
              </li>
            ))}
          </ul>
        </div>
      )}
    </div>
  );
}

interface Deed {
  left: Item[];
  problems: Problem[];
  busy: boolean;
  /** That it is being stopped, or was. */
  stopped: string;
  start: (work: Work) => Promise<void>;
  leave: () => void;
}

/** The decision under way: it can be stopped, and what became of it is always told. */
function useDeed({ act, items, onClose, onDone }: Props): Deed {
  const [left, setLeft] = useState(items);
  const [problems, setProblems] = useState<Problem[]>([]);
  const [busy, setBusy] = useState(false);
  const [stopped, setStopped] = useState("");
  const stops = useRef(false);
  const isShown = useRef(true);
  const done = useRef<Item[]>([]);
  const goAway = (): void => {
    isShown.current = false;
    stops.current = true;
  };
  useEffect(() => goAway, []);
  const start = async (work: Work): Promise<void> => {
    setBusy(true);
    setStopped("");
    stops.current = false;
    const { count, problems: failed, done: now, rest } = await forEach(left, work, () => stops.current);
    done.current.push(...now);
    if (count) say(t(`inbox.done_${act}` as Word, { n: count }));
    const open = failed.length + rest.length;
    const sum = rest.length ? t("inbox.stopped", { n: open, done: done.current.length }) : "";
    if (!isShown.current) {
      // Whoever went elsewhere is told there, and nothing that was begun since is touched.
      for (const text of [...failed.map((each) => each.text), sum]) if (text) say(text, true);
      return;
    }
    setBusy(false);
    if (!open) return onDone(done.current);
    setStopped(sum);
    setProblems(failed);
    setLeft([...failed.filter((each) => !each.isOver).map((each) => each.item), ...rest]);
  };
  const leave = (): void => {
    if (!busy) return done.current.length ? onDone(done.current) : onClose();
    // What is on its way cannot be called back: how it ends is told, and the rest is left.
    stops.current = true;
    setStopped(t("inbox.stopping"));
  };
  return { left, problems, busy, stopped, start, leave };
}

export function ActingDialog(props: Props): VNode {
  const { act, items, choice, extra, now, people } = props;
  const me = useMe();
  const isMany = items.length > 1;
  const { left, problems, busy, stopped, start, leave } = useDeed(props);
  const { Fields, first, work, ready } = FIELDS[act];
  const [draft, setDraft] = useState<Draft>(() => ({ ...NO_DRAFT, ...first?.(items[0]!, choice, me.name) }));
  const elsewhere = !busy && !isMany && now && now.status !== "open" ? ending(now) : null;
  const isBlocked = busy || !!elsewhere || !left.length || ready?.(draft, items[0]!) === false;
  // The keyboard sends a form also when its button is disabled.
  const submit = (): unknown => isBlocked || start(work(draft, isMany, extra));
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) (event.target as HTMLInputElement).form?.requestSubmit();
  };
  return (
    <Dialog title={t(`inbox.${act}_title` as Word, { n: items.length })} onClose={leave} onSubmit={submit}>
      <div onKeyDown={keys} class="acting">
        {isMany ? (
          <Chosen items={items} />
        ) : (
          <p><strong><Plain text={items[0]!.subject} /></strong></p>
        )}
        {act === "approve" && !isMany && isMisleading(items[0]!) && <Misleading word="inbox.misleading_sure" />}
        {Fields && <Fields item={items[0]!} draft={draft} set={(change) => setDraft({ ...draft, ...change })} people={people} isMany={isMany} />}
        <div role="alert">{elsewhere && <p class="notice wait"><Plain text={elsewhere} /></p>}</div>
        <div role="status">{stopped && <p class="notice wait">{stopped}</p>}</div>
        <Problems list={problems} isMany={isMany} />
        <p class="row">
          <button type="submit" class="primary" disabled={isBlocked}>
            {t(`inbox.${act}_now` as Word)}
          </button>
          <button type="button" onClick={leave}>{t("common.cancel")}</button>
        </p>
      </div>
    </Dialog>
  );
}
