/** What is asked of whoever decides, and what is made of it, for each kind of decision. */
import type { VNode } from "preact";
import { useId } from "preact/hooks";
import { t, type Word } from "../../lib/words";
import { exact } from "../../lib/time";
import { useMe } from "../../session";
import { answer, change, type Work } from "./decide";
import type { NewAnswer } from "../../api/types";
import type { Extra } from "./detail";
import { Differences } from "./diff";
import { Tick } from "./tick";
import { isMisleading, needsWords, noOf, readable, visible, yesOf, type Act, type Item } from "./item";

export interface Draft {
  text: string;
  choice: string | undefined;
  /** Of several ways the one that is taken: how long, or who. */
  way: string;
}

interface FieldsProps {
  item: Item;
  draft: Draft;
  set: (change: Partial<Draft>) => void;
  people: string[];
  isMany: boolean;
}

interface Field {
  Fields?: (props: FieldsProps) => VNode;
  /** What stands there before anything is written. */
  first?: (item: Item, choice: string | undefined, me: string) => Partial<Draft>;
  work: (draft: Draft, isMany: boolean, extra: Extra) => Work;
  ready?: (draft: Draft, item: Item) => boolean;
}

export const NO_DRAFT: Draft = { text: "", choice: undefined, way: "" };

function Words({ word, draft, set, required = false }: FieldsProps & { word: Word; required?: boolean }): VNode {
  return (
    <label>
      {t(word)}
      <textarea dir="auto" autofocus required={required} value={draft.text} onInput={(event) => set({ text: event.currentTarget.value })} />
    </label>
  );
}

function AnswerFields(props: FieldsProps): VNode {
  const { item, draft, set } = props;
  const isNeeded = needsWords(item, draft.choice);
  return (
    <>
      {item.options.length > 0 && (
        <label>
          {t("inbox.choice")}
          <select value={draft.choice} onChange={(event) => set({ choice: event.currentTarget.value })}>
            {item.options.map((each) => <option key={each} value={each}>{visible(each)}</option>)}
          </select>
        </label>
      )}
      <Words {...props} word={isNeeded ? "inbox.words" : "inbox.words_if"} required={isNeeded} />
    </>
  );
}

/** What is wrong with the text as arguments; `null`: nothing. */
function mistake(text: string): string | null {
  try {
    const value: unknown = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? null : t("inbox.no_object");
  } catch (error) {
    return t("inbox.no_json", { why: (error as Error).message });
  }
}

function EditFields({ item, draft, set }: FieldsProps): VNode {
  const id = useId();
  const wrong = mistake(draft.text);
  const before = readable(item.arguments ?? "");
  const after = readable(draft.text);
  return (
    <>
      <label for={id}>{t("inbox.arguments")}</label>
      <textarea
        id={id}
        class="json"
        autofocus
        spellcheck={false}
        aria-invalid={wrong !== null}
        aria-describedby={`${id}-wrong`}
        value={draft.text}
        onInput={(event) => set({ text: event.currentTarget.value, way: "" })}
      />
      <p id={`${id}-wrong`} class="wrong" role="status">
        {wrong ?? (before === after ? t("inbox.unchanged") : "")}
      </p>
      {wrong === null && before !== after && (
        <>
          <h3>{t("inbox.differences")}</h3>
          <Differences before={before} after={after} />
          <Tick required checked={draft.way === "sure"} set={(isSure) => set({ way: isSure ? "sure" : "" })}>
            {t("inbox.sure")}
          </Tick>
        </>
      )}
    </>
  );
}

function Ways({ ways, draft, set }: FieldsProps & { ways: [string, string][] }): VNode {
  const group = useId();
  return (
    <fieldset>
      <legend class="hidden">{t("inbox.ways")}</legend>
      {ways.map(([way, text], index) => (
        <label key={way}>
          <input type="radio" name={group} autofocus={index === 0} checked={draft.way === way} onChange={() => set({ way })} /> {text}
        </label>
      ))}
    </fieldset>
  );
}

const NINE = 9;

function tomorrow(): Date {
  const date = new Date();
  date.setDate(date.getDate() + 1);
  date.setHours(NINE, 0, 0, 0);
  return date;
}

function SnoozeFields(props: FieldsProps): VNode {
  const { draft, set } = props;
  return (
    <>
      <Ways
        {...props}
        ways={[
          ["900", t("inbox.for_15_min")],
          ["3600", t("inbox.for_1_h")],
          ["tomorrow", t("inbox.tomorrow", { at: exact(tomorrow().getTime() / 1000).slice(0, -3) })],
          ["own", t("inbox.own_time")],
        ]}
      />
      {draft.way === "own" && (
        <label>
          {t("inbox.until")} <input type="datetime-local" required value={draft.text} onInput={(event) => set({ text: event.currentTarget.value })} />
        </label>
      )}
    </>
  );
}

function until({ way, text }: Draft): { for_s: number } | { until_us: number } {
  if (Number(way)) return { for_s: Number(way) };
  return { until_us: (way === "own" ? new Date(text) : tomorrow()).getTime() * 1000 };
}

function AssignFields(props: FieldsProps): VNode {
  const { draft, set, people } = props;
  const me = useMe();
  const id = useId();
  return (
    <>
      <Ways {...props} ways={[[`=${me.name}`, t("inbox.to_me", { name: me.name })], ["", t("inbox.to_nobody")], ["own", t("inbox.to_somebody")]]} />
      {draft.way === "own" && (
        <label>
          {t("inbox.name")} <input required maxLength={200} list={id} value={draft.text} onInput={(event) => set({ text: event.currentTarget.value })} />
          <datalist id={id}>{people.map((each) => <option key={each} value={each} />)}</datalist>
        </label>
      )}
    </>
  );
}

/** The answer that stands for a yes or a no to this one of several. */
function meant(item: Item, choice: string | undefined, isMany: boolean): string {
  if (choice === undefined) throw new Error(t("inbox.no_such_answer"));
  if (isMany && isMisleading(item)) throw new Error(t("inbox.look_alone"));
  return choice;
}

/** What the answer approves besides this call. */
function always(item: Item, extra: Extra): Pick<NewAnswer, "always" | "scope"> {
  const isAlways = extra.always && item.kind === "confirmation";
  return { always: isAlways, scope: isAlways && extra.wide ? "session" : "call" };
}

export const FIELDS: Record<Act, Field> = {
  approve: {
    work: (_, isMany, extra) => async (item) =>
      answer(item, { choice: meant(item, yesOf(item), isMany), identical: extra.identical, ...always(item, extra) }),
  },
  answer: {
    Fields: AnswerFields,
    first: (item, choice) => ({ choice: choice ?? item.options[0] }),
    work: ({ text, choice }, _, { identical }) => (item) => answer(item, { text, choice: choice ?? null, identical }),
  },
  reject: {
    Fields: (props) => <Words {...props} word="inbox.why_not" />,
    work: ({ text }, _, { identical }) => async (item) => answer(item, { choice: meant(item, noOf(item), false), text, identical }),
  },
  edit: {
    Fields: EditFields,
    first: (item) => ({ text: readable(item.arguments ?? "") }),
    ready: ({ text }, item) => mistake(text) === null && readable(text) !== readable(item.arguments ?? ""),
    work: ({ text, way }, _, extra) => (item) =>
      answer(item, { choice: yesOf(item) ?? null, arguments: text, confirm_edit: way === "sure", ...always(item, extra) }),
  },
  snooze: {
    Fields: SnoozeFields,
    first: () => ({ way: "900" }),
    work: (draft) => (item) => change(item, "snooze", until(draft)),
  },
  assign: {
    Fields: AssignFields,
    first: (_, __, me) => ({ way: `=${me}` }),
    work: ({ way, text }) => (item) => change(item, "assign", { assignee: way === "own" ? text.trim() : way.slice(1) || null }),
  },
  withdraw: {
    Fields: (props) => <Words {...props} word="inbox.why_withdrawn" />,
    work: ({ text }) => (item) => change(item, "cancel", { reason: text }),
  },
};
