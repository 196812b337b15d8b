/** The window in which a decision is made that needs more than one key. */
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { Plain } from "../../lib/hidden";
import { t, type Word } from "../../lib/words";
import { useMe } from "../../session";
import { Dialog } from "../../ui/dialog";
import { say } from "../../ui/toasts";
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

export function ActingDialog({ act, items, choice, extra, now, people, onClose, onDone }: Props): VNode {
  const me = useMe();
  const isMany = items.length > 1;
  const [left, setLeft] = useState(items);
  const [problems, setProblems] = useState<Problem[]>([]);
  const [busy, setBusy] = useState(false);
  const done = useRef<Item[]>([]);
  const { Fields, first, work, ready } = FIELDS[act];
  const [draft, setDraft] = useState<Draft>(() => ({ ...NO_DRAFT, ...first?.(items[0]!, choice, me.name) }));
  const elsewhere = !busy && !isMany && now && now.status !== "open" ? ending(now) : null;
  const run: Work = work(draft, isMany, extra);
  const submit = async (): Promise<void> => {
    setBusy(true);
    const result = await forEach(left, run);
    const failed = new Set(result.problems.map((each) => each.item.id));
    done.current.push(...left.filter((each) => !failed.has(each.id)));
    setBusy(false);
    if (result.count) say(t(`inbox.done_${act}` as Word, { n: result.count }));
    if (!failed.size) {
      onDone(done.current);
      return;
    }
    setProblems(result.problems);
    setLeft(result.problems.filter((each) => !each.isOver).map((each) => each.item));
  };
  const leave = (): void => (done.current.length ? onDone(done.current) : onClose());
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) (event.target as HTMLInputElement).form?.requestSubmit();
  };
  return (
    <Dialog title={t(`inbox.${act}_title` as Word, { n: items.length })} onClose={leave} onSubmit={() => !busy && void submit()}>
      <div onKeyDown={keys} class="acting">
        {isMany ? (
          <ul class="chosen" tabIndex={0} aria-label={t("inbox.chosen")}>
            {items.map((each) => <li key={each.id}><Plain text={each.subject} /></li>)}
          </ul>
        ) : (
          <p><strong><Plain text={items[0]!.subject} /></strong></p>
        )}
        {act === "approve" && !isMany && isMisleading(items[0]!) && <Misleading word="inbox.misleading_sure" />}
        {Fields && <Fields item={items[0]!} draft={draft} set={(change) => setDraft({ ...draft, ...change })} people={people} isMany={isMany} />}
        <div role="alert">{elsewhere && <p class="notice wait"><Plain text={elsewhere} /></p>}</div>
        <Problems list={problems} isMany={isMany} />
        <p class="row">
          <button type="submit" class="primary" disabled={busy || !!elsewhere || !left.length || ready?.(draft, items[0]!) === false}>
            {t(`inbox.${act}_now` as Word)}
          </button>
          <button type="button" onClick={leave}>{t("common.cancel")}</button>
        </p>
      </div>
    </Dialog>
  );
}
