/** One question: who asks what and why, what would happen, and what can be done. */
import type { VNode } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Plain } from "../../lib/hidden";
import { Code } from "../../lib/markdown";
import { link } from "../../lib/router";
import { exact, Moment, relative, useNow } from "../../lib/time";
import { named, t, type Word } from "../../lib/words";
import { useMay } from "../../session";
import { Badge, Facts, pretty } from "../../ui/basics";
import { LookBadge, QUESTIONS } from "../../ui/state";
import { Differences } from "./diff";
import { ending } from "./decide";
import { handsTo, isMisleading, readable, yesOf, noOf, type Act, type Item } from "./item";
import { Tick } from "./tick";

const SECOND = 1e6;

/** How urgent it is; what is as usual is not said. */
export function Urgency({ item }: { item: Item }): VNode | null {
  if (item.priority === 2) return null;
  return <Badge tone={item.priority > 2 ? "bad" : "neutral"}>{named("inbox", `priority_${item.priority}`)}</Badge>;
}

/** When the time is over, as it runs. */
export function Countdown({ item }: { item: Item }): VNode | null {
  const now = useNow();
  if (item.deadline_us === null || item.status !== "open") return null;
  const at = item.deadline_us / SECOND;
  return (
    <time class={at - now < 300 ? "late" : ""} dateTime={new Date(at * 1000).toISOString()} title={exact(at)}>
      {t("inbox.ends", { when: relative(at, now) })}
    </time>
  );
}

export function Misleading({ word }: { word: Word }): VNode {
  return (
    <p class="notice bad" role="note">
      <strong>{t("inbox.misleading")}</strong> {t(word)}
    </p>
  );
}

function About({ item }: { item: Item }): VNode {
  const [next] = item.chain;
  return (
    <Facts
      rows={[
        [t("common.agent"), <Plain text={item.from_agent} />],
        [t("inbox.asked"), <Moment at={item.created_at_us / SECOND} />],
        [t("inbox.role"), <Plain text={item.role} />],
        [t("inbox.assignee"), item.assignee === null ? t("inbox.nobody") : <Plain text={item.assignee} />],
        [t("common.session"), item.session_id && <a href={link(["sessions", item.session_id])}><Plain text={item.session_id} /></a>],
        [
          t("inbox.deadline"),
          item.status === "open" && item.deadline_us !== null && (
            <>
              <Countdown item={item} />{" "}
              {item.default === null ? t("inbox.then_expires") : <>{t("inbox.then")} <q><Plain text={item.default} /></q></>}
            </>
          ),
        ],
        [
          t("inbox.escalates"),
          item.status === "open" && next && item.escalate_at_us && (
            <>
              <Plain text={next[0]} /> <Moment at={item.escalate_at_us / SECOND} />
            </>
          ),
        ],
        [t("inbox.snoozed_until"), item.snoozed_until_us && item.status === "open" && <Moment at={item.snoozed_until_us / SECOND} />],
      ]}
    />
  );
}

function Consequence({ item }: { item: Item }): VNode {
  const target = handsTo(item);
  if (item.notice) return <p>{t("inbox.only_seen")}</p>;
  if (item.kind === "handoff") {
    return <p>{t(item.options.length > 1 ? "inbox.conversation" : "inbox.conversation_answer", { agent: item.from_agent })}</p>;
  }
  if (item.tool === null) return <p>{t("inbox.goes_on", { agent: item.from_agent })}</p>;
  return (
    <>
      <p>
        {t(target ? "inbox.would_hand" : "inbox.would_run", { agent: item.from_agent })}{" "}
        <code><Plain text={target ?? item.tool} /></code>
      </p>
      <Code text={readable(item.arguments ?? "")} />
    </>
  );
}

/** How it ended: who said what, when and from where. */
function Ending({ item }: { item: Item }): VNode | null {
  const { answer } = item;
  if (item.status === "open") return null;
  return (
    <section>
      <h3>{t("inbox.outcome")}</h3>
      <p><Plain text={ending(item)} /></p>
      {answer?.choice && answer.text && <blockquote><Plain text={answer.text} /></blockquote>}
      {item.reason && <blockquote><Plain text={item.reason} /></blockquote>}
      {answer?.arguments && <Differences before={readable(item.arguments ?? "")} after={readable(answer.arguments)} />}
      <Facts
        rows={[
          [t("inbox.when"), item.closed_at_us && <Moment at={item.closed_at_us / SECOND} />],
          [t("inbox.via"), answer?.via],
          [t("inbox.always_short"), answer?.always && t(answer.scope === "call" ? "inbox.always" : `inbox.always_${answer.scope}`)],
        ]}
      />
    </section>
  );
}

/** An option in the reader's language, if it is one of the usual ones. */
function optionText(option: string): string {
  const key = `option_${option.toLowerCase()}`;
  const text = named("inbox", key);
  return text === key ? option : text;
}

export interface Extra {
  always: boolean;
  /** Whether `always` is wider than calls with the same arguments. */
  wide: boolean;
  identical: boolean;
}

interface ActionsProps {
  item: Item;
  same: number;
  extra: Extra;
  setExtra: (extra: Extra) => void;
  act: (act: Act, choice?: string) => void;
  busy: boolean;
}

function Actions({ item, same, extra, setExtra, act, busy }: ActionsProps): VNode {
  const isAdmin = useMay("admin");
  const yes = yesOf(item);
  const no = noOf(item);
  // The second click of a double click must not decide the question that came next.
  const button = (name: Act, text: string, style = "", choice?: string): VNode => (
    <button type="button" key={text} class={style} disabled={busy} onClick={(event) => event.detail < 2 && act(name, choice)}>
      <Plain text={text} />
    </button>
  );
  return (
    <div class="actions" role="group" aria-label={t("inbox.actions")}>
      <div class="row">
        {yes && button("approve", optionText(yes), "primary")}
        {!item.options.length && button("answer", t("inbox.do_answer"), "primary")}
        {item.options.filter((each) => each !== yes && each !== no).map((each) => button("answer", t("inbox.dots", { text: optionText(each) }), "", each))}
        {no && button("reject", t("inbox.dots", { text: optionText(no) }), "danger")}
        {yes && item.arguments !== null && button("edit", t("inbox.do_edit"))}
        {button("snooze", t("inbox.do_snooze"))}
        {button("assign", t("inbox.do_assign"))}
        {isAdmin && button("withdraw", t("inbox.do_withdraw"))}
      </div>
      {item.kind === "confirmation" && (
        <Tick checked={extra.always} set={(always) => setExtra({ ...extra, always, wide: false })}>
          {t("inbox.always")}
        </Tick>
      )}
      {extra.always && (
        <Tick checked={extra.wide} set={(wide) => setExtra({ ...extra, wide })}>
          <Plain text={item.scope ? t("inbox.always_within", { scope: item.scope }) : t("inbox.always_session")} />
        </Tick>
      )}
      {same > 1 && (
        <Tick checked={extra.identical} set={(identical) => setExtra({ ...extra, identical })}>
          {t("inbox.identical", { n: same })}
        </Tick>
      )}
    </div>
  );
}

interface Props extends ActionsProps {
  /** The reader came by keyboard: the focus follows. */
  focus: { current: boolean };
  /** Somebody closed it, even if it is not known yet how. */
  isGone: boolean;
}

export function Detail({ focus, isGone, ...props }: Props): VNode {
  const { item } = props;
  const mayAnswer = useMay("answer");
  const heading = useRef<HTMLHeadingElement>(null);
  const wasOpen = useRef(item.status === "open");
  useEffect(() => {
    if (focus.current) heading.current?.focus();
    focus.current = false;
  }, []);
  const isOpen = item.status === "open" && !isGone;
  // When somebody else decides, what had the focus may be gone.
  useEffect(() => {
    if (!isOpen && wasOpen.current && document.activeElement === document.body) heading.current?.focus();
  }, [isOpen, props.busy]);
  return (
    <article class="card question" aria-label={t("inbox.question")}>
      <p class="row">
        <Badge tone={isOpen ? "wait" : "neutral"}>{named("inbox", item.kind)}</Badge>
        <Urgency item={item} />
        {item.status !== "open" && <LookBadge look={QUESTIONS[item.status]} />}
      </p>
      <h2 ref={heading} tabIndex={-1}>
        <Plain text={item.subject} />
      </h2>
      <div role="alert">
        {wasOpen.current && !props.busy && item.status !== "open" && <p class="notice wait"><Plain text={ending(item)} /></p>}
      </div>
      <About item={item} />
      {item.body && (
        <section>
          <h3>{t("inbox.why")}</h3>
          <p class="asked"><Plain text={item.body} /></p>
        </section>
      )}
      <section>
        <h3>{t("inbox.consequence")}</h3>
        {isMisleading(item) && <Misleading word="inbox.misleading_help" />}
        <Consequence item={item} />
      </section>
      {isOpen && mayAnswer && <Actions {...props} />}
      <Ending item={item} />
      {item.context !== null && (
        <details open>
          <summary>{t("inbox.context")}</summary>
          <Code text={pretty(item.context)} />
        </details>
      )}
    </article>
  );
}
