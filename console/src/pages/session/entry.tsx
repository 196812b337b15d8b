/** One entry of the conversation, in the lane of who said or did it. */
import { Component, type ComponentChildren, type VNode } from "preact";
import { Plain } from "../../lib/hidden";
import { link } from "../../lib/router";
import { Markdown } from "../../lib/markdown";
import { exact } from "../../lib/time";
import { currentLanguage, t } from "../../lib/words";
import { word } from "../../ui/basics";
import { detail, textOf, type Entry } from "./entries";
import { classOf, laneOf, leftOf, nameOf, type Lanes } from "./lanes";
import { Crossing } from "./crossing";
import { Guarded, Note, Question, RunError } from "./notes";
import { Fold, ToolCall } from "./tool";

export interface RowProps {
  entry: Entry;
  lanes: Lanes;
  isMarked: boolean;
  /** `null`: whoever looks may not. */
  fork: ((seq: number) => void) | null;
}

function Body({ entry, lanes }: { entry: Entry; lanes: Lanes }): VNode {
  const text = entry.item ? textOf(entry.item) : "";
  switch (entry.kind) {
    case "tool":
      return <ToolCall entry={entry} />;
    case "handoff":
      return <Crossing entry={entry} lanes={lanes} />;
    case "question":
      return <Question entry={entry} />;
    case "guardrail":
      return <Guarded event={entry.event} />;
    case "error":
      return <RunError event={entry.event} />;
    case "thought":
      return <Fold label={t("session.thought")}>{() => <Markdown text={text} />}</Fold>;
    case "said":
    case "answer":
      return <Markdown text={text} />;
    default:
      return <Note entry={entry} />;
  }
}

/** Who speaks: an agent, people who answered, the user, or another session's agent. */
function speaker(entry: Entry): string {
  const by = detail(entry.event, "by");
  const asked = detail(entry.event, "message") as { from_agent?: unknown } | undefined;
  if (entry.agent === null && asked?.from_agent) return word(asked.from_agent);
  const name = nameOf(entry.agent);
  return entry.kind === "answer" && typeof by === "string" ? `${name} · ${by}` : name;
}

export function Head({ name, children }: { name: string; children?: ComponentChildren }): VNode {
  return (
    <header>
      <span class="dot" aria-hidden="true" />
      <strong>
        <Plain text={name} />
      </strong>
      {children}
    </header>
  );
}

/** `09:30:15`, with the day where it is another one. */
function clock(at: number): string {
  const text = exact(at);
  return text.slice(0, 10) === exact(Date.now() / 1000).slice(0, 10) ? text.slice(11) : text;
}

/** Drawn again only if something about it changed: there may be thousands. */
export class EntryRow extends Component<RowProps> {
  private language = currentLanguage();

  override shouldComponentUpdate(next: RowProps): boolean {
    const { entry, lanes, isMarked, fork } = this.props;
    const isSame = next.entry === entry && next.lanes === lanes && next.isMarked === isMarked && next.fork === fork;
    return !isSame || this.language !== currentLanguage();
  }

  override render({ entry, lanes, isMarked, fork }: RowProps): VNode {
    this.language = currentLanguage();
    const lane = laneOf(lanes, entry.agent);
    const { seq, timestamp, session_id: session } = entry.event;
    const look = `entry ${entry.kind} ${classOf(lane)}${entry.isUndone ? " undone" : ""}${isMarked ? " marked" : ""}`;
    return (
      <article
        class={look}
        data-seq={seq}
        tabIndex={-1}
        aria-current={isMarked ? "true" : undefined}
        style={{ "--left": `${leftOf(lanes, lane)}%` }}
      >
        <Head name={speaker(entry)}>
          {entry.isUndone && <span class="badge">{t("session.undone")}</span>}
          <span class="tools">
            <time dateTime={new Date(timestamp * 1000).toISOString()} title={exact(timestamp)}>
              {clock(timestamp)}
            </time>
            <a href={link(["sessions", session], { seq })} aria-label={t("session.step", { seq })}>
              #{seq}
            </a>
            {fork && (
              <button type="button" class="quiet" title={t("session.fork")} aria-label={t("session.fork_at", { seq })} onClick={() => fork(seq)}>
                <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
                  <path d="M4 2v12M4 9c6 0 8-2 8-6M9.5 5 12 2.5 14.5 5" />
                </svg>
              </button>
            )}
          </span>
        </Head>
        <Body entry={entry} lanes={lanes} />
      </article>
    );
  }
}
