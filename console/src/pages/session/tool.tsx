/** A call of a tool: its arguments and its result are folded away until somebody looks. */
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import type { SessionEvent } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Code } from "../../lib/markdown";
import { duration } from "../../lib/time";
import { t, type Word } from "../../lib/words";
import { Badge, pretty, word, type Tone } from "../../ui/basics";
import { detail, type Entry, type Item } from "./entries";

const LONGEST = 20_000;

/** What went wrong, in its own words. */
export function Problem({ text }: { text: string | null | undefined }): VNode | null {
  if (!text) return null;
  return (
    <p class="problem">
      <Plain text={text} />
    </p>
  );
}

/** What is long is drawn only when it is opened. */
export function Fold({ label, children }: { label: ComponentChildren; children: () => ComponentChildren }): VNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <details onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{label}</summary>
      {isOpen && children()}
    </details>
  );
}

export function Data({ name, value }: { name: string; value: unknown }): VNode | null {
  const text = pretty(value);
  if (!text) return null;
  return (
    <>
      <p class="muted">{name}</p>
      <Code text={text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text} />
    </>
  );
}

function outputOf(event: SessionEvent, call: unknown): unknown {
  const outputs = (event.items ?? []).filter((item) => item.type === "function_call_output");
  const output = (outputs.find((item) => item.call_id === call) ?? outputs.at(-1)) as Item | undefined;
  const value = output?.output;
  if (!Array.isArray(value)) return value;
  return (value as Item[]).map((part) => (typeof part.text === "string" ? part.text : JSON.stringify(part))).join("\n");
}

function standing(all: SessionEvent[], answer: SessionEvent | undefined, asked: SessionEvent | undefined, call: unknown): [Tone, Word] {
  if (asked && !detail(asked, "approved")) {
    const isAnswered = (detail(asked, "status") ?? "answered") === "answered";
    return isAnswered ? ["bad", "session.tool_refused"] : ["neutral", "session.tool_not_run"];
  }
  const unfinished = answer && (detail(answer, "unfinished") as Record<string, string> | undefined)?.[word(call)];
  if (unfinished) return ["neutral", unfinished.startsWith("not run") ? "session.tool_not_run" : "session.tool_stopped"];
  if (answer && detail(answer, "not_run")) return ["neutral", "session.tool_not_run"];
  if (answer) return answer.error ? ["bad", "session.tool_failed"] : ["good", "session.tool_done"];
  const last = all.at(-1)!.event_type;
  if (last === "inbox") return ["wait", "common.waiting_person"];
  const isBrokenOff = all.length > 1 && last !== "tool_confirmation";
  return isBrokenOff ? ["neutral", "session.tool_stopped"] : ["busy", "session.tool_open"];
}

function ended(asked: SessionEvent): Word {
  if (detail(asked, "approved")) return "session.approved";
  const status = detail(asked, "status");
  if (status === "expired") return "session.expired";
  if (status === "cancelled") return "session.withdrawn";
  return status === "unavailable" ? "session.not_asked" : "session.rejected";
}

const answers = (event: SessionEvent, call: unknown): boolean =>
  event.event_type === "tool_call" || !!event.items?.some((item) => item.type === "function_call_output" && item.call_id === call);

export function ToolCall({ entry }: { entry: Entry }): VNode {
  const { item, event, related } = entry;
  const all = [event, ...related];
  const answer = all.findLast((each) => answers(each, item?.call_id));
  const asked = all.find((each) => each.event_type === "tool_confirmation");
  const [tone, text] = standing(all, answer, asked, item?.call_id);
  const name = word(item?.name ?? detail(event, "tool")) || "?";
  const edited = asked && detail(asked, "arguments");
  const took = answer?.duration_ms;
  return (
    <>
      <Fold
        label={
          <>
            <code>
              <Plain text={name} />
            </code>{" "}
            <Badge tone={tone}>{t(text)}</Badge> {took !== undefined && took !== null && <span class="muted">{duration(took)}</span>}
          </>
        }
      >
        {() => (
          <>
            <Data name={t("session.arguments")} value={item?.arguments} />
            {edited !== undefined && <Data name={t("session.edited", { who: word(asked && detail(asked, "by")) })} value={edited} />}
            {answer && <Data name={t("session.result")} value={outputOf(answer, item?.call_id)} />}
          </>
        )}
      </Fold>
      {asked && (
        <p class="muted">
          <Plain
            text={`${t(ended(asked), { who: word(detail(asked, "by")) })} ${word(detail(asked, "reason"))}`}
          />
        </p>
      )}
      <Problem text={answer?.error} />
    </>
  );
}
