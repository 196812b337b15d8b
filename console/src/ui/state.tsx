/**
 * How things stand, in one place: for every status that the API knows, its colour, sign and word.
 * Each table has a row for every value of its type, so that a new one does not compile until it has words.
 */
import type { VNode } from "preact";
import type { HandoffView, InboxItem, PlanTask, SessionSummary, TraceSpan } from "../api/types";
import { t, type Word } from "../lib/words";
import { Badge, SIGNS, type Tone } from "./basics";

export type Look = readonly [Tone, Word];

export type SessionState = SessionSummary["state"];
export type Conclusion = NonNullable<SessionSummary["conclusion"]>;
type Standing = Pick<SessionSummary, "state" | "outcome" | "conclusion" | "run_id">;

export const STATES: Record<SessionState, Look> = {
  working: ["busy", "common.working"],
  waiting_agent: ["wait", "common.waiting_agent"],
  waiting_person: ["wait", "common.waiting_person"],
  failed: ["bad", "common.state_failed"],
  idle: ["neutral", "common.idle"],
};

const FINISHED: Look = ["good", "common.finished"];
/** How well the last run of a session went, where nobody works on it. */
export const CONCLUSIONS: Record<Conclusion, Look> = {
  succeeded: FINISHED,
  with_errors: ["bad", "common.with_errors"],
  refused: ["bad", "common.refused"],
  rolled_back: ["bad", "common.handoff_rolled_back"],
  out_of_budget: ["bad", "common.out_of_budget"],
  failed: ["bad", "common.state_failed"],
  stopped: ["neutral", "common.stopped"],
};

/** A session at rest stands as its last run went; a run without an outcome was stopped. */
export function sessionLook({ state, outcome, conclusion, run_id: run }: Standing): Look {
  switch (state) {
    case "working":
    case "waiting_agent":
    case "waiting_person":
      return STATES[state];
    case "failed":
    case "idle":
      if (conclusion) return CONCLUSIONS[conclusion];
      return outcome ? FINISHED : run ? CONCLUSIONS.stopped : STATES[state];
  }
}

export type HandoffStatus = HandoffView["status"];
export const HANDOFFS: Record<HandoffStatus, Look> = {
  initiated: ["busy", "common.handoff_initiated"],
  validating: ["busy", "common.handoff_validating"],
  transferring: ["busy", "common.handoff_transferring"],
  completed: ["good", "common.handoff_completed"],
  failed: ["bad", "common.handoff_failed"],
  rolled_back: ["bad", "common.handoff_rolled_back"],
};
const isHandoff = (status: unknown): status is HandoffStatus => typeof status === "string" && status in HANDOFFS;
/** The row of a status that an event tells; `null`: it tells none that is known. */
export const handoffLook = (status: unknown): Look | null => (isHandoff(status) ? HANDOFFS[status] : null);

export type QuestionStatus = InboxItem["status"];
export const QUESTIONS: Record<QuestionStatus, Look> = {
  open: ["wait", "common.waiting_person"],
  answered: ["good", "common.question_answered"],
  expired: ["neutral", "common.question_expired"],
  cancelled: ["neutral", "common.question_withdrawn"],
};
export const NOTICE: Look = ["neutral", "common.question_notice"];
const isQuestion = (status: unknown): status is QuestionStatus => typeof status === "string" && status in QUESTIONS;
export const questionLook = (status: unknown): Look | null => (isQuestion(status) ? QUESTIONS[status] : null);

/** Who answers a question that expires with a default: no person did. */
export const NOBODY = "nobody";

/** How the question whether a tool may run ended: as its question did, or nobody could be asked. */
export type DecisionStatus = Exclude<QuestionStatus, "open"> | "unavailable";
const NOT_APPROVED: Record<DecisionStatus, Look> = {
  answered: ["bad", "common.not_allowed"],
  expired: ["neutral", "common.question_expired"],
  cancelled: ["neutral", "common.question_withdrawn"],
  unavailable: ["neutral", "common.nobody_asked"],
};
const APPROVED: Look = ["good", "common.approved"];
const isDecision = (status: unknown): status is DecisionStatus => typeof status === "string" && status in NOT_APPROVED;
/** How a decision ended; events that tell no status are of decisions that were answered. */
export const decisionStatus = (status: unknown): DecisionStatus => (isDecision(status) ? status : "answered");
export const decisionLook = (approved: unknown, status: unknown): Look =>
  approved === true ? APPROVED : NOT_APPROVED[decisionStatus(status)];

export type ToolState = "open" | "waiting" | "done" | "failed" | "stopped" | "not_run" | "refused";
export const TOOLS: Record<ToolState, Look> = {
  open: ["busy", "session.tool_open"],
  waiting: ["wait", "common.waiting_person"],
  done: ["good", "session.tool_done"],
  failed: ["bad", "session.tool_failed"],
  stopped: ["neutral", "session.tool_stopped"],
  not_run: ["neutral", "session.tool_not_run"],
  refused: ["bad", "common.not_allowed"],
};

export type SpanState = TraceSpan["status"] | "running";
export const SPANS: Record<SpanState, Look> = {
  ok: ["good", "trace.ok"],
  running: ["busy", "trace.running"],
  waiting: ["wait", "trace.waiting"],
  error: ["bad", "trace.error"],
};
/** How a span ended that did not do what it was for, by the outcome that it tells. */
const ENDINGS: Record<string, Look> = {
  withdrawn: ["neutral", "common.question_withdrawn"],
  abandoned: ["neutral", "trace.abandoned"],
  stopped: CONCLUSIONS.stopped,
  cancelled: CONCLUSIONS.stopped,
  rewound: ["neutral", "trace.rewound"],
  refused: CONCLUSIONS.refused,
  failed: CONCLUSIONS.failed,
  out_of_budget: CONCLUSIONS.out_of_budget,
};

/** A span that is over stands as what it tells of itself; only one that tells nothing else is done. */
export function spanLook(span: TraceSpan): Look {
  const { kind, status, ended_at: end } = span;
  const details = span.details ?? {};
  if (status === "waiting") return SPANS.waiting;
  if (end === null) return SPANS[status === "ok" ? "running" : status];
  if (kind === "tool_confirmation") return decisionLook(details.approved, details.status);
  if (kind === "tool_call" && details.not_run === true) return TOOLS.not_run;
  const own = kind === "handoff" ? handoffLook(details.status) : kind === "inbox" ? questionLook(details.status) : null;
  if (own) return own;
  const ending = typeof details.outcome === "string" ? ENDINGS[details.outcome] : undefined;
  return ending ?? SPANS[status];
}

export type TaskStatus = PlanTask["status"];
export const TASKS: Record<TaskStatus, Look> = {
  pending: ["neutral", "plans.pending"],
  running: ["busy", "plans.running"],
  done: ["good", "plans.done"],
  failed: ["bad", "plans.failed"],
  stopped: ["wait", "plans.stopped"],
};

/** The sign of a look, with its word. */
export const signed = ([tone, word]: Look): string => `${SIGNS[tone]} ${t(word)}`;

export function LookBadge({ look: [tone, word] }: { look: Look }): VNode {
  return <Badge tone={tone}>{t(word)}</Badge>;
}

export function StateBadge({ session }: { session: Standing }): VNode {
  return <LookBadge look={sessionLook(session)} />;
}
