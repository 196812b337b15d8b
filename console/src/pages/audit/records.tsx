/** What the audit knows, one thing a line: who did what, from whom to whom, why and when. */
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { AuditEntry } from "../../api/types";
import { Plain } from "../../lib/hidden";
import { Code } from "../../lib/markdown";
import { link } from "../../lib/router";
import { exact, Moment } from "../../lib/time";
import { named, t, type Word } from "../../lib/words";
import { Badge, Facts, pretty, type Tone } from "../../ui/basics";
import { decisionLook, decisionStatus, handoffLook, questionLook, type DecisionStatus, type HandoffStatus } from "../../ui/state";

type AuditRecord = AuditEntry;

const TONES: Record<AuditRecord["type"], Tone> = {
  handoff: "neutral",
  route: "neutral",
  tool_confirmation: "neutral",
  inbox: "wait",
  guardrail: "bad",
  message: "neutral",
};

function toneOf({ type, move, facts }: AuditRecord): Tone {
  if (type === "tool_confirmation") return decisionLook(facts.approved, facts.status)[0];
  if (type === "handoff") {
    const tone = handoffLook(move)?.[0] ?? (facts.rollback_failed ? "bad" : "neutral");
    return tone === "busy" ? "neutral" : tone; // What is on record is over.
  }
  if (type === "inbox") return questionLook(facts.status ?? facts.change)?.[0] ?? "wait";
  return TONES[type];
}

const MOVES: Record<HandoffStatus, Word> = {
  initiated: "audit.move_initiated",
  validating: "audit.move_validating",
  transferring: "audit.move_transferring",
  completed: "audit.move_completed",
  failed: "audit.move_failed",
  rolled_back: "audit.move_rolled_back",
};

/** A record of a handoff that tells no move is of something that was, or could not be, rolled back. */
function moved({ move, facts }: AuditRecord): string {
  if (move !== null && move in MOVES) return t(MOVES[move as HandoffStatus]);
  if (facts.compensation === undefined) return t("audit.move_other");
  return t(facts.rollback_failed ? "audit.move_not_undid" : "audit.move_undid", { what: text(facts.compensation) });
}

const UNDECIDED: Record<DecisionStatus, Word> = {
  answered: "audit.refused",
  expired: "audit.asked_expired",
  cancelled: "audit.asked_cancelled",
  unavailable: "audit.asked_unavailable",
};

const text = (value: unknown): string => (typeof value === "string" ? value : "");

/** What a session did when its question was over. */
function taken({ status, answer }: AuditRecord["facts"]): string {
  if (status === "expired") return answer ? "expired_with" : "ended_expired";
  if (status === "cancelled") return "ended_cancelled";
  return answer ? "change_taken" : "change_posted";
}

/** What was done, in a few words. */
function deed(record: AuditRecord): string {
  const { type, facts } = record;
  if (type === "handoff") return moved(record);
  if (type === "tool_confirmation") {
    return t(facts.approved ? "audit.approved" : UNDECIDED[decisionStatus(facts.status)], { tool: text(facts.tool) });
  }
  if (type === "guardrail") return t("audit.held", { guardrail: text(facts.guardrail) });
  if (type === "route") return t("audit.routed");
  const word = facts.change ? `change_${text(facts.change)}` : taken(facts);
  const answer = facts.answer as Record<string, unknown> | undefined;
  return t(`audit.${word}` as Word, { choice: text(facts.choice ?? answer?.choice) || text(facts.text ?? answer?.text) });
}

/** The number of the event in its session. */
const seqOf = (record: AuditRecord): number => Number(/\/(\d+)(\.\d+)?$/.exec(record.id)?.[1]) || 0;

function Details({ record }: { record: AuditRecord }): VNode {
  const { session_id: session, handoff_id: handoff } = record;
  const plain = (value: string | null): VNode | null => (value ? <Plain text={value} /> : null);
  const code = (value: string | null): VNode | null => (value ? <code>{value}</code> : null);
  return (
    <>
      <Facts
        rows={[
          [t("audit.record"), <a href={link(["audit"], { record: record.id })}><Plain text={record.id} /></a>],
          [t("audit.when"), exact(record.timestamp)],
          [t("audit.who"), <>{named("audit", `kind_${record.actor.kind}`)} <Plain text={record.actor.name} /></>],
          [t("common.session"), session && <a href={link(["sessions", session], { seq: seqOf(record) })}><Plain text={session} /></a>],
          [t("audit.handoff"), handoff && <a href={link(["sessions", session, "graph"], { handoff })}><Plain text={handoff} /></a>],
          [t("audit.moves"), handoff && <a href={link(["audit"], { record: handoff })}>{t("audit.all_moves")}</a>],
          [t("audit.task"), record.task_id !== session && plain(record.task_id)],
          [t("audit.correlation"), record.correlation_id !== session && plain(record.correlation_id)],
          [t("common.reason"), plain(record.reason)],
          [t("audit.code"), code(record.code)],
          [t("audit.error"), plain(record.error)],
        ]}
      />
      {Object.keys(record.facts).length > 0 && <Code text={pretty(record.facts)} />}
      <Facts rows={[[t("audit.hash"), code(record.hash) ?? t("audit.no_hash")], [t("audit.previous"), code(record.previous) ?? t("audit.first")]]} />
    </>
  );
}

function Line({ record, isOpen }: { record: AuditRecord; isOpen: boolean }): VNode {
  // What nobody looks at is not drawn.
  const [open, setOpen] = useState(isOpen);
  const { from, to, actor } = record;
  // Who acted is said already.
  const way = !to && from === actor.name ? "" : [from, to].filter(Boolean).join(" → ");
  const subject = record.reason || record.error || text(record.facts.subject);
  return (
    <li>
      <details open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <Badge tone={toneOf(record)}>{named("audit", `type_${record.type}`)}</Badge>{" "}
          <strong><Plain text={actor.name || named("audit", `kind_${actor.kind}`)} /></strong>{" "}
          <Plain text={deed(record)} />{" "}
          {way && <span class="way"><Plain text={way} /></span>}{" "}
          {subject && <q><Plain text={subject.slice(0, 300)} /></q>}{" "}
          <Moment at={record.timestamp} />
        </summary>
        {open && <Details record={record} />}
      </details>
    </li>
  );
}

export function Records({ records, areOpen = false }: { records: readonly AuditRecord[]; areOpen?: boolean }): VNode {
  return (
    <ol class="records" aria-label={t("audit.records")}>
      {records.map((each) => <Line key={each.id} record={each} isOpen={areOpen} />)}
    </ol>
  );
}
