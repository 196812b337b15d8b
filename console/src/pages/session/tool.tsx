/** A call of a tool: its arguments and its result are folded away until somebody looks. */
import type { ComponentChildren, VNode } from "preact";
import { useState } from "preact/hooks";
import type { SessionEvent } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Code } from "../../lib/markdown";
import { duration } from "../../lib/time";
import { t } from "../../lib/words";
import { pretty, word } from "../../ui/basics";
import { decisionStatus, LookBadge, NOBODY, TOOLS, type DecisionStatus, type ToolState } from "../../ui/state";
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

function standing(all: SessionEvent[], answer: SessionEvent | undefined, asked: SessionEvent | undefined, call: unknown): ToolState {
  if (asked && detail(asked, "approved") !== true) return decisionStatus(detail(asked, "status")) === "answered" ? "refused" : "not_run";
  const unfinished = answer && (detail(answer, "unfinished") as Record<string, string> | undefined)?.[word(call)];
  if (unfinished) return unfinished.startsWith("not run") ? "not_run" : "stopped";
  if (answer && detail(answer, "not_run")) return "not_run";
  if (answer) return answer.error ? "failed" : "done";
  const last = all.at(-1)!;
  if (last.event_type === "inbox") return detail(last, "status") ? "open" : "waiting";
  return all.length > 1 && last.event_type !== "tool_confirmation" ? "stopped" : "open";
}

const UNDECIDED: Record<DecisionStatus, "session.rejected" | "session.expired" | "session.withdrawn" | "session.not_asked"> = {
  answered: "session.rejected",
  expired: "session.expired",
  cancelled: "session.withdrawn",
  unavailable: "session.not_asked",
};

/** Who decided about the call, or why nobody did. */
function ended(asked: SessionEvent): string {
  const who = word(detail(asked, "by"));
  const approved = detail(asked, "approved") === true;
  if (approved) return who === NOBODY ? t("session.approved_default") : t("session.approved", { who });
  return t(UNDECIDED[decisionStatus(detail(asked, "status"))], { who });
}

const answers = (event: SessionEvent, call: unknown): boolean =>
  event.event_type === "tool_call" || !!event.items?.some((item) => item.type === "function_call_output" && item.call_id === call);

export function ToolCall({ entry }: { entry: Entry }): VNode {
  const { item, event, related } = entry;
  const all = [event, ...related];
  const answer = all.findLast((each) => answers(each, item?.call_id));
  const asked = all.find((each) => each.event_type === "tool_confirmation");
  const state = standing(all, answer, asked, item?.call_id);
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
            <LookBadge look={entry.isUndone ? ["neutral", TOOLS[state][1]] : TOOLS[state]} /> {took !== undefined && took !== null && state !== "not_run" && state !== "refused" && <span class="muted">{duration(took)}</span>}
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
            text={`${ended(asked)} ${word(detail(asked, "reason"))}`}
          />
        </p>
      )}
      <Problem text={answer?.error} />
    </>
  );
}
