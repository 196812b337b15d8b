/** Events as the entries of a conversation. What belongs to an earlier entry is put to it. */
import type { SessionEvent } from "../../api/types";
import { word } from "../../ui/basics";
import { NOTICE, questionLook, QUESTIONS, type Look } from "../../ui/state";

export type Item = Record<string, unknown>;
type Kind = "said" | "answer" | "thought" | "tool" | "handoff" | "question" | "guardrail" | "error" | "note";

export interface Entry {
  key: string;
  seq: number;
  kind: Kind;
  /** Whose lane it stands in; `null`: the user's. */
  agent: string | null;
  event: SessionEvent;
  item: Item | null;
  /** Later events that tell what became of it. */
  related: SessionEvent[];
  isUndone: boolean;
}

export const detail = (event: SessionEvent, name: string): unknown => event.details?.[name];

/** What an item says, as text. */
export function textOf(item: Item): string {
  const content = item.content ?? item.summary;
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return (content as Item[]).map((each) => word(each.text ?? each.refusal) || `[${word(each.type)}]`).join("\n\n");
}

const TRANSFER = "transfer_to_";
const QUIET = new Set(["waiting", "done", "failed"]);

class Builder {
  readonly entries: Entry[] = [];
  private readonly calls = new Map<string, Entry>();
  private readonly handoffs = new Map<string, Entry>();
  private readonly questions = new Map<string, Entry>();
  /** Questions and calls that nothing became of yet. */
  private readonly open = new Set<Entry>();
  private count = 0;

  take(event: SessionEvent): void {
    this.count = 0;
    if (event.event_type === "llm_call" || event.event_type === "message") this.said(event);
    else if (event.event_type === "tool_call") this.answered(event);
    else if (event.event_type === "handoff") this.joined(this.handoffs, word(detail(event, "id")), "handoff", event);
    else if (event.event_type === "inbox") this.asked(event);
    else if (event.event_type === "tool_confirmation") this.confirmed(event);
    else if (event.event_type === "guardrail") this.add("guardrail", event);
    else if (event.event_type === "agent_error") {
      this.withdraw(event);
      this.add("error", event);
    } else if (event.event_type === "agent_complete") {
      const outcome = detail(event, "outcome");
      if (outcome === "cancelled") this.withdraw(event);
      if (outcome && !QUIET.has(word(outcome))) this.add("note", event);
    } else if (event.event_type !== "agent_start") this.add("note", event);
  }

  private add(kind: Kind, event: SessionEvent, item: Item | null = null, agent = event.agent_name ?? null): Entry {
    const key = `${event.seq}.${this.count++}`;
    const entry: Entry = { key, seq: event.seq, kind, agent, event, item, related: [], isUndone: false };
    this.entries.push(entry);
    return entry;
  }

  private said(event: SessionEvent): void {
    for (const item of event.items ?? []) {
      const type = item.type ?? "message";
      if (type === "function_call") this.called(event, item);
      else if (type === "function_call_output") this.ended(this.calls.get(word(item.call_id)), event);
      else if (type === "reasoning") void (textOf(item) && this.add("thought", event, item));
      else if (type !== "message") this.add("note", event, item);
      else if (item.role === "assistant") this.add("answer", event, item);
      else {
        if (!event.step) this.withdraw(event);
        this.add("said", event, item, null);
      }
    }
    if (event.event_type === "message" && !event.items?.length) this.add("note", event);
  }

  private called(event: SessionEvent, item: Item): void {
    const entry = this.add("tool", event, item);
    this.calls.set(word(item.call_id), entry);
    this.open.add(entry);
    // A transfer is told by its handoff, unless it is answered as a tool is.
    if (word(item.name).startsWith(TRANSFER)) this.entries.pop();
  }

  private answered(event: SessionEvent): void {
    for (const item of event.items ?? []) if (item.type === "function_call") this.called(event, item);
    const output = event.items?.find((item) => item.type === "function_call_output");
    const entry = this.calls.get(word(output?.call_id));
    if (!entry) return void this.add("tool", event);
    if (word(entry.item?.name).startsWith(TRANSFER)) this.entries.push(entry);
    this.ended(entry, event);
  }

  private ended(entry: Entry | undefined, event: SessionEvent): void {
    if (!entry) return;
    if (entry.event !== event) entry.related.push(event);
    this.open.delete(entry);
  }

  private confirmed(event: SessionEvent): void {
    const entry = this.calls.get(word(detail(event, "call_id")));
    if (entry) entry.related.push(event);
    else this.add("note", event);
  }

  private asked(event: SessionEvent): void {
    const entry = this.joined(this.questions, word(detail(event, "item")), "question", event);
    if (detail(event, "status")) this.open.delete(entry);
    else this.open.add(entry);
    const tool = word(detail(event, "tool"));
    const call = tool && [...this.open].findLast((each) => each.kind === "tool" && each.item?.name === tool);
    if (call) call.related.push(event);
  }

  /** A run that is stopped, or broken off by the next message, asks and calls no more. */
  private withdraw(event: SessionEvent): void {
    for (const entry of this.open) entry.related.push(event);
    this.open.clear();
  }

  private joined(known: Map<string, Entry>, id: string, kind: Kind, event: SessionEvent): Entry {
    const before = known.get(id);
    before?.related.push(event);
    const entry = before ?? this.add(kind, event, null, word(detail(event, "from")) || (event.agent_name ?? null));
    known.set(id, entry);
    return entry;
  }
}

/** The numbers of the events that do not count any more. */
export function undone(events: readonly SessionEvent[]): Set<number> {
  const result = new Set<number>();
  const mark = (event: SessionEvent): void => {
    const [first = 0, last = 0] = detail(event, "undoes") as number[];
    const keeps = new Set((detail(event, "keeps") ?? []) as number[]);
    for (let seq = first; seq <= Math.min(last, event.seq - 1); seq++) if (!keeps.has(seq)) result.add(seq);
  };
  const known = events.filter((event) => Array.isArray(detail(event, "undoes")));
  const isRewind = (event: SessionEvent): boolean => detail(event, "rewound") !== undefined;
  // A step back that was itself taken back undoes nothing, and neither does a rollback that was.
  for (const event of known.filter(isRewind).reverse()) if (!result.has(event.seq)) mark(event);
  const rewound = new Set(result);
  for (const event of known) if (!isRewind(event) && !rewound.has(event.seq)) mark(event);
  return result;
}

/** The entries of these events; one that is as it was before is the same object as before. */
export function entriesOf(events: readonly SessionEvent[], before: readonly Entry[] = []): Entry[] {
  const builder = new Builder();
  events.forEach((event) => builder.take(event));
  const gone = undone(events);
  const old = new Map(before.map((entry) => [entry.key, entry]));
  return builder.entries.map((entry) => {
    entry.isUndone = gone.has(entry.seq);
    const same = old.get(entry.key);
    const isSame = same?.related.length === entry.related.length && same.isUndone === entry.isUndone;
    return isSame ? same : entry;
  });
}

/** How a handoff stands. */
export const statusOf = (entry: Entry): string => word(detail(entry.related.findLast((event) => detail(event, "status")) ?? entry.event, "status"));

/** How a question to people stands; nobody waits for the answer to a notice. */
export function standingOf({ event, related }: Entry): Look {
  const ending = [event, ...related].findLast((each) => each.event_type !== "inbox" || detail(each, "status"));
  if (ending?.event_type === "inbox") return questionLook(detail(ending, "status")) ?? QUESTIONS.cancelled;
  if (["rollback_failed", "escalation"].includes(word(detail(event, "kind")))) return NOTICE;
  return ending ? QUESTIONS.cancelled : QUESTIONS.open;
}

/** Everybody with a lane, in the order in which they came in. */
export function lanesOf(entries: readonly Entry[], handoffs: readonly Item[], agent: string): string[] {
  const names = new Set<string>();
  const add = (name: unknown): void => void (typeof name === "string" && name && names.add(name));
  for (const each of handoffs) (add(each.from), add(each.to));
  for (const entry of entries) {
    add(entry.agent);
    if (entry.kind === "handoff") add(detail(entry.event, "to"));
  }
  add(agent);
  return [...names];
}
